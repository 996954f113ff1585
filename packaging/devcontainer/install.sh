#!/bin/sh
# A feature is installed as root, for every user of the container. VERSION is the option of that name.
set -eu
exec sh "$(dirname "$0")/ringfence-install.sh" --prefix /usr/local --version "${VERSION:-@VERSION@}"
