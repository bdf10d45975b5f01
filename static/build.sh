#!/bin/sh
# Installs the pinned browser libraries and copies what the console serves into
# static/dist, which the Go build embeds. Run from anywhere; needs npm.
#
#   static/build.sh          install if missing, then copy and verify
#   static/build.sh --sums   print fresh checksums, after changing a version
#
# There is no lock file: vendor.sha256 pins the very bytes instead, whatever
# registry they came from.
set -eu
cd "$(dirname "$0")"

command -v npm >/dev/null 2>&1 || {
    echo "static/build.sh: npm is missing; on Debian: apt-get install npm" >&2
    exit 1
}

stamp=node_modules/.installed
if [ ! -f "$stamp" ] || ! cmp -s package.json "$stamp"; then
    npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error >&2
    cp package.json "$stamp"
fi

mkdir -p dist
cp node_modules/htmx.org/dist/htmx.min.js dist/htmx.min.js
cp node_modules/idiomorph/dist/idiomorph-ext.min.js dist/idiomorph-ext.min.js
for subset in latin latin-ext cyrillic cyrillic-ext; do
    cp "node_modules/@fontsource-variable/inter/files/inter-$subset-wght-normal.woff2" "dist/inter-$subset.woff2"
done
for lib in @fontsource-variable/inter htmx.org idiomorph; do
    cp "node_modules/$lib/LICENSE" "dist/$(basename "$lib")-LICENSE.txt"
done

if [ "${1:-}" = --sums ]; then
    sha256sum dist/*.js dist/*.woff2
    exit 0
fi
sha256sum --check --quiet vendor.sha256 || {
    echo "static/build.sh: a vendored file differs from vendor.sha256; it was not what we reviewed" >&2
    exit 1
}
