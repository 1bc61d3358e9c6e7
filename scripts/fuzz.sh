#!/usr/bin/env bash
# Fuzzes one target for so many seconds: fuzz.sh TARGET [SECONDS] [libFuzzer's options]. With "all", each target in turn.
# Any compiler of the project will do: coverage is switched on as cargo-fuzz does it, by RUSTC_BOOTSTRAP. Needs a C++ compiler.
# What is found lies in fuzz/artifacts/TARGET; what was learnt stays in fuzz/corpus/TARGET, and the inputs that
# crates/*/tests keep (FILE.hex, one a line) are where it begins. `fuzz.sh keep TARGET` writes those anew: the smallest, 24 KB of them.
set -euo pipefail
cd "$(dirname "$0")/.."

kept() { # target -> the file that the tests read
    case $1 in
        hub_*) echo crates/hub/tests/corpus/"$1".hex ;;
        rwf_*) echo crates/rwf/tests/corpus/"$1".hex ;;
        rssl_*) echo crates/rssl/tests/corpus/"$1".hex ;;
        record_*) echo crates/record/tests/corpus/"$1".hex ;;
        lbm_*) echo crates/lbm/tests/corpus/"$1".hex ;;
        permissions_*) echo crates/permissions/tests/corpus/"$1".hex ;;
        venue_*) echo crates/venue/tests/corpus/"$1".hex ;;
        marketfeed | page) echo crates/marketfeed/tests/corpus/"$1".hex ;;
        *) echo crates/quoteway/tests/corpus/"$1".hex ;;
    esac
}

host=$(rustc -vV | sed -n 's/^host: //p')
build() { # target
    # What cargo-fuzz passes, without a sanitizer: there is no unsafe code in what the targets run.
    local passes="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
    passes+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
    local features=()
    case $1 in lbmdump) features=(--features tools) ;; rmds_cnf) features=(--features servers) ;; record_import) features=(--features files) ;; esac
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="$passes -Cdebug-assertions -Coverflow-checks" cargo build --quiet --release --manifest-path fuzz/Cargo.toml \
        --target-dir fuzz/target --target "$host" "${features[@]}" --bin "$1"
}

fuzz() { # target, seconds, options
    local target=$1 seconds=$2 corpus=fuzz/corpus/$1 n=0
    shift 2
    build "$target"
    mkdir -p "$corpus" "fuzz/artifacts/$target"
    if [ -f "$(kept "$target")" ]; then
        while read -r line; do
            printf '%b' "$(printf '%s' "$line" | sed 's/../\\x&/g')" >"$corpus/kept-$n"
            n=$((n + 1))
        done <"$(kept "$target")"
    fi
    "fuzz/target/$host/release/$target" "$corpus" -max_total_time="$seconds" -artifact_prefix="fuzz/artifacts/$target/" \
        -max_len=4096 -timeout=20 -rss_limit_mb=1024 -print_final_stats=1 "$@"
}

keep() { # target
    local target=$1 small out
    build "$target"
    small=$(mktemp -d)
    "fuzz/target/$host/release/$target" -merge=1 -max_len=4096 "$small" "fuzz/corpus/$target" 2>/dev/null
    out=$(kept "$target")
    mkdir -p "$(dirname "$out")"
    # The smallest first: they say most by the byte.
    find "$small" -type f -size -2k -printf '%s %p\n' | sort -n | while read -r _ file; do
        od -An -v -tx1 "$file" | tr -d ' \n'
        echo
    done | awk '{ total += length($0) + 1 } total <= 24576' >"$out"
    rm -rf "$small"
    echo "$(wc -l <"$out") inputs in $out"
}

case ${1:-} in
    '') echo "usage: fuzz.sh TARGET|all [SECONDS] [options]; fuzz.sh keep TARGET; targets:" $(sed -n 's/^name = "\(.*\)"/\1/p' fuzz/Cargo.toml | tail -n +2) >&2; exit 2 ;;
    keep) keep "$2" ;;
    all)
        failed=()
        for target in $(sed -n 's/^name = "\(.*\)"/\1/p' fuzz/Cargo.toml | tail -n +2); do
            echo "== $target"
            fuzz "$target" "${2:-60}" "${@:3}" || failed+=("$target")
        done
        [ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}; the inputs are in fuzz/artifacts" >&2; exit 1; }
        ;;
    *) fuzz "$1" "${2:-60}" "${@:3}" ;;
esac
