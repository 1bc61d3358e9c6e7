#!/usr/bin/env bash
# The module for Python: `scripts/python.sh build` makes a wheel in python/target/wheels, `test` installs it in a virtual environment and runs its
# tests (pyarrow, pandas, polars, DuckDB and mypy come from PyPI), `stubs` checks the types that are declared against those that are there. `check` is
# what `make test` runs: both, on an unoptimised build laid out as an installed one, with the interpreter of QUOTEWAY_PYTHON, which has all of these.
set -euo pipefail
cd "$(dirname "$0")/../python"
venv=${QUOTEWAY_VENV:-target/venv}
profile=${QUOTEWAY_PROFILE:-release}

prepare() {
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install -q "maturin>=1.8,<2"
    "$venv/bin/maturin" build -q --profile "$profile" -i "$venv/bin/python"
}

install() {
    prepare
    "$venv/bin/pip" install -q "$@"
    "$venv/bin/pip" install -q --force-reinstall --no-deps "$(ls -t target/wheels/*.whl | head -1)"
}

case ${1:-} in
    build) prepare; ls -t target/wheels/*.whl | head -1 ;;
    test)
        install pyarrow==26.0.1 pandas==3.1.1 polars==2.1.0 duckdb==2.0.1
        # Away from the sources, so that what is installed is what is tested.
        tests=$PWD/tests
        python=$(realpath -s "$venv/bin/python")
        cd "$(mktemp -d)"
        "$python" -m unittest discover -s "$tests" "${@:2}"
        ;;
    check)
        python=$(realpath -s "${QUOTEWAY_PYTHON:?name an interpreter that has pyarrow, pandas, polars, duckdb and mypy}")
        cargo build -q --features pyo3/extension-module --target-dir target/check
        site=$PWD/target/check/site tests=$PWD/tests
        rm -rf "$site" && mkdir -p "$site" && cp -r quoteway "$site"
        cp target/check/debug/lib_native.so "$site/quoteway/_native.abi3.so"
        cd "$(mktemp -d)"
        export PYTHONPATH=$site
        "$python" "$tests/test_quoteway.py"
        "$python" -m mypy.stubtest --ignore-missing-stub quoteway
        ;;
    stubs)
        install mypy
        "$venv/bin/stubtest" --ignore-missing-stub quoteway
        ;;
    *) sed -n '2,5s/^# //p' "$0"; exit 2 ;;
esac
