#!/usr/bin/env bash
# The module for Python: `scripts/python.sh build` makes a wheel in python/target/wheels, `test` installs it in a virtual environment and runs its
# tests (pyarrow, pandas, polars, DuckDB and mypy come from PyPI), `stubs` checks the types that are declared against those that are there.
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
    stubs)
        install mypy
        "$venv/bin/stubtest" --ignore-missing-stub quoteway
        ;;
    *) sed -n '2,3s/^# //p' "$0"; exit 2 ;;
esac
