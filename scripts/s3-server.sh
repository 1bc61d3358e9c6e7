#!/usr/bin/env bash
# Puts moto's S3 server into a folder, for tests of object stores: ./scripts/s3-server.sh target/peers
# Packages of PyPI of fixed versions, in an environment of their own. Without Python its tests say that they did not run.
set -euo pipefail
folder=$(mkdir -p "${1:-target/peers}" && cd "${1:-target/peers}" && pwd)/moto
version=5.2.5

if [ -f "$folder/version" ] && [ "$(cat "$folder/version")" = "$version" ]; then
    exit 0
fi
python3 -m venv "$folder"
"$folder/bin/pip" -q install "moto[server]==$version"
echo "$version" >"$folder/version"
