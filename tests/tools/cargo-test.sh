#!/usr/bin/env bash
# Runs `cargo test` with the arguments given and prints the slowest twenty tests at the end.
set -uo pipefail

if [ "${1:-}" = --run ]; then
    # Called by cargo for every test binary. Their times come from an option that only the test runner itself guards as
    # unstable; whatever else cargo runs this way (documentation tests) is left as it is.
    shift
    case $1 in
    */deps/*) RUSTC_BOOTSTRAP=1 exec "$@" -Zunstable-options --report-time ;;
    *) exec "$@" ;;
    esac
fi

# Most tests that take long wait for a server.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(getconf _NPROCESSORS_ONLN)))}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
${CARGO:-cargo} --config "target.'cfg(all())'.runner=['$(realpath "$0")','--run']" test "$@" 2>&1 | tee "$log"
status=$?
echo
echo "The slowest twenty tests, in seconds:"
awk '/^ +Running / { unit = $2 == "unittests" ? $3 : $2 }
     /^ +Running .*deps\// { binary = $NF; sub(/.*\//, "", binary); sub(/-[0-9a-f]+\)$/, "", binary) }
     /^test .* <[0-9.]+s>$/ { time = $NF; gsub(/[<>s]/, "", time); print time, binary " (" unit "): " $2 }' "$log" |
    sort -rn | head -n 20
exit $status
