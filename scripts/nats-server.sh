#!/usr/bin/env bash
# Builds nats-server, a peer of `quoteway lab`, into a folder: ./scripts/nats-server.sh target/peers
# A Go module of a fixed version, taken by the go command and checked by its checksum database. Without Go its column stays empty.
set -euo pipefail
folder=$(mkdir -p "${1:-target/peers}" && cd "${1:-target/peers}" && pwd)
version=v2.12.1

if [ -x "$folder/nats-server" ] && "$folder/nats-server" --version | grep -qF "$version"; then
    exit 0
fi
if ! command -v go >/dev/null; then
    echo "no Go: nats-server is left out (https://go.dev/doc/install)" >&2
    exit 0
fi
GOBIN=$folder go install "github.com/nats-io/nats-server/v2@$version"
