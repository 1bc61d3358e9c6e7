#!/usr/bin/env bash
# Makes a Debian package: packaging/deb.sh OUTPUT_FOLDER, with BINARY, LAB, MAN, VERSION and COMPRESS (none, gzip, xz) from the
# environment.
# Nothing but dpkg-deb is needed. `make deb` calls this after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: packaging/deb.sh OUTPUT_FOLDER}
binary=${BINARY:-target/release/quoteway}
version=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)}
arch=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"

make --silent --old-file=build --old-file=build-lab install PREFIX=/usr DESTDIR="$root" BINARY="$binary" LAB="${LAB:-target/release/quoteway-lab}" MAN="${MAN:-target/man}" MAKEFLAGS= >/dev/null
gzip -9 -n "$root"/usr/share/man/man1/*.1
if command -v strip >/dev/null; then
    strip --strip-debug "$root"/usr/bin/*
fi
# Debian's places for completions.
install -d "$root/usr/share/zsh/vendor-completions"
mv "$root"/usr/share/zsh/site-functions/* "$root/usr/share/zsh/vendor-completions/"
rmdir "$root/usr/share/zsh/site-functions"
for unit in packaging/systemd/*.service; do
    install -D -m 644 "$unit" "$root/usr/lib/systemd/system/$(basename "$unit")"
done
install -D -m 644 packaging/debian/quoteway.sysusers "$root/usr/lib/sysusers.d/quoteway.conf"
# Every parameter, as a comment: what is not set follows the binary's defaults.
install -d -m 755 "$root/etc/quoteway"
"$binary" config | sed 's/^\([a-z_0-9]* = \)/# \1/; s/^\(\[\[.*\)/# \1/' > "$root/etc/quoteway/quoteway.toml"
install -D -m 644 LICENSE "$root/usr/share/doc/quoteway/copyright"
gzip -9 -n -c CHANGELOG.md > "$root/usr/share/doc/quoteway/changelog.gz"

# The newest symbols of the C library that the binary asks for.
libc=$(grep -aoE 'GLIBC_2\.[0-9]+' "$binary" | sort -V | tail -1 | sed 's/GLIBC_//')
install -d "$root/DEBIAN"
cat > "$root/DEBIAN/control" <<CONTROL
Package: quoteway
Version: $version
Architecture: $arch
Maintainer: The Quoteway developers <developers@quoteway.invalid>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: libc6 (>= ${libc:-2.36})
Section: net
Priority: optional
Description: open market-data distribution
 Distributes market data from publishers to the programs that watch it, and
 speaks RSSL/RWF, so that EMA and ETA applications connect unmodified.
CONTROL
echo /etc/quoteway/quoteway.toml > "$root/DEBIAN/conffiles"
install -m 755 packaging/debian/postinst packaging/debian/prerm "$root/DEBIAN/"
mkdir -p "$out"
package="$out/quoteway_${version}_$arch.deb"
dpkg-deb --root-owner-group "-Z${COMPRESS:-xz}" --build "$root" "$package" >/dev/null
echo "$package"
