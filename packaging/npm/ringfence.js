#!/usr/bin/env node
// Starts the program of this platform's package. npm has installed it, as an optional dependency; nothing is downloaded here.
'use strict';

const { spawn } = require('node:child_process');
const os = require('node:os');

const name = `@ringfence/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/ringfence`);
} catch {
  console.error(`error: ringfence has no program for ${process.platform} on ${process.arch} here`);
  console.error(`\nhint: \`npm install ${name}\`, without \`--omit=optional\`; the packages are for Linux`);
  process.exit(125);
}

if (typeof process.execve === 'function') {
  // From here on the program is this process, with its terminal and its signals.
  process.execve(program, ['ringfence', ...process.argv.slice(2)], process.env);
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
// The terminal sends these to both; those that were sent to this process alone go on to the program.
for (const signal of ['SIGINT', 'SIGQUIT']) process.on(signal, () => {});
for (const signal of ['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2']) process.on(signal, () => child.kill(signal));
child.on('error', (error) => {
  console.error(`error: cannot start ${program}: ${error.message}`);
  process.exit(125);
});
child.on('exit', (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));
