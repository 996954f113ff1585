//! The shell and the small tools.

use crate::desk::{Desk, each};
use crate::table::SMALL_TOOLS;

/// M1: in a root of its own too.
#[test]
fn the_shell_and_the_small_tools() {
    each(&SMALL_TOOLS, tools);
}

fn tools(desk: Desk) {
    desk.write("hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n");
    desk.write("Makefile", "hello: hello.o\n\tcc -o $@ $<\nhello.o: hello.c\n\tcc -c $<\nclean:\n\trm -f hello *.o\n");
    desk.works(&[
        ("make compiles and links, and what comes out runs", "make -s -j2 && test \"$(./hello)\" = hello"),
        ("make does nothing twice, and cleans", "make | grep -q 'up to date' && make -s clean && test ! -e hello"),
        (
            "archives are packed and unpacked",
            "mkdir -p d/e && echo x > d/e/f && tar -czf d.tgz d && rm -r d && tar -xzf d.tgz && \
                 grep -q x d/e/f && gzip -k d/e/f && gunzip -c d/e/f.gz | grep -q x",
        ),
        ("zip archives too", "zip -qr d.zip d && rm -r d && unzip -q d.zip && grep -q x d/e/f"),
        ("a file is edited in place", "sed -i 's/x/y/' d/e/f && grep -q y d/e/f"),
        ("files are found and handed on", "find . -name '*.c' -print0 | xargs -0 -P2 wc -l > /dev/null"),
        (
            "a large file is sorted through temporary files",
            "seq 600000 -1 1 > big && sort -S 1M -u big -o sorted && test \"$(head -1 sorted)\" = 1 && \
                 test \"$(wc -l < sorted)\" = 600000 && rm big sorted",
        ),
        (
            "temporary files and directories are made",
            "f=$(mktemp) && d=$(mktemp -d) && echo x > \"$f\" && touch \"$d/y\" && rm -r \"$f\" \"$d\"",
        ),
        ("a here-document is read", "cat <<X | grep -q hello\nhello\nX"),
        ("processes stand for files", "diff <(echo a) <(echo a) && echo x | tee >(cat > /dev/null) > /dev/null"),
        (
            "jobs run in the background and are waited for",
            "sleep 0.1 & p=$!; sleep 0.05 & wait; ! kill -0 $p 2> /dev/null",
        ),
        ("a process goes on without its terminal", "nohup sh -c 'echo up' > out 2> /dev/null && grep -q up out"),
        (
            "a coprocess answers",
            "coproc cat; echo hi >&\"${COPROC[1]}\"; read -r l <&\"${COPROC[0]}\"; test \"$l\" = hi",
        ),
        ("a named pipe connects two processes", "mkfifo p && (echo x > p &) && test \"$(cat p)\" = x && rm p"),
        (
            "binary data passes through pipes unchanged",
            "head -c 3000000 /dev/urandom > r && cat r | gzip | gunzip | cmp - r && rm r",
        ),
        ("files are locked", "flock lock true && rm lock"),
        (
            "links, modes and times are set",
            "touch t && ln t hard && ln -s t soft && chmod 700 t && touch -d 2020-01-01 t && cp -a t copy && \
                 test \"$(stat -c %Y copy)\" = \"$(date -d 2020-01-01 +%s)\" && truncate -s 1M sparse && \
                 rm t hard soft copy sparse",
        ),
        ("a directory is copied and compared", "cp -r d d2 && diff -r d d2 && mv d2 d3 && rm -r d3"),
        (
            "text is taken apart",
            "printf 'a b\\nc d\\n' | awk '{print $2}' | tr a-z A-Z | paste -sd, | grep -qx B,D && seq 3 | \
                 cut -c1 | tac | head -1 | grep -qx 3",
        ),
        ("a traced program runs", "strace -f -o trace true && grep -q execve trace"),
        ("a signal is caught", "trap 'echo caught > c' USR1; kill -USR1 $$; grep -q caught c"),
        (
            "a script is run by its first line",
            "printf '#!/usr/bin/env bash\\necho ran\\n' > s && chmod +x s && ./s | grep -q ran",
        ),
        ("deep and odd names are fine", "mkdir -p $'a b/\\xff\\n/ü' && echo x > $'a b/\\xff\\n/ü/f' && rm -r 'a b'"),
    ]);
}
