#!/bin/sh
# Builds the guests of this repository: Rust sources into the small components committed beside them.
#
#   guests/build.sh            builds every component in its place
#   guests/build.sh --check    builds them elsewhere and compares: fails where a committed one is not what its source says
#   guests/build.sh --test     tests the guests' logic that needs no host
#
# The same compiler gives the same bytes, wherever the repository lies. The committed components are built with the
# one named below; another one builds working components whose bytes differ, so `--check` asks for that one.
set -eu

PINNED='rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)'
TARGET=wasm32-unknown-unknown

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
repository=$(dirname -- "$here")
build=${CARGO_TARGET_DIR:-$here/target}
export CARGO_TARGET_DIR="$build"

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "guests/build.sh: $1"
    shift
    for line; do say "  $line"; done
    exit 1
}

# Where a component goes, and the crate it is built from.
components() {
    cat <<LIST
examples/survey/reader.wasm reader
examples/survey/survey.wasm survey
examples/race/race.wasm race
examples/race/way.wasm way
examples/wide/wide.wasm wide
examples/wide/primes.wasm primes
examples/deep/deep.wasm deep
tests/guests/script/script.wasm script
tests/guests/echo-tool/echo-tool.wasm echo-tool
tests/guests/fetch/fetch.wasm fetch
LIST
}

all() {
    components | sed 's/ .*//'
    echo "$TEMPLATE"
}

# The template as `treeward new` writes it, built as its user would. A workspace of its own.
TEMPLATE=templates/guest/guest.wasm
write_template() {
    project=$build/template
    mkdir -p "$project/src" "$project/wit"
    cp "$repository"/wit/*.wit "$project/wit/"
    for file in Cargo.toml.in Cargo.lock src/lib.rs; do
        sed 's/{{name}}/guest/g' "$repository/templates/guest/$file" >"$project/${file%.in}"
    done
}

# Finds a compiler that can build for wasm: a target that rustup installed, or Debian's rustc with the library's sources.
find_toolchain() {
    command -v cargo >/dev/null || fail 'cargo is not installed' 'https://rustup.rs'
    lld=$(rustc --print sysroot 2>/dev/null)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
    if [ -z "${RUSTC:-}" ] && [ -d /usr/lib/rustlib/src/rust/library ] && /usr/bin/rustc --version >/dev/null 2>&1; then
        RUSTC=/usr/bin/rustc
    fi
    RUSTC=${RUSTC:-rustc}
    export RUSTC
    sysroot=$("$RUSTC" --print sysroot)
    if [ -d "$sysroot/lib/rustlib/$TARGET/lib" ]; then
        std= flags=
    elif [ -d "$sysroot/lib/rustlib/src/rust/library" ]; then
        # The library is compiled too. That needs cargo's unstable `build-std`, which this variable admits.
        # What a panic says reaches nobody here, so it is left out too, and a component is half as large.
        std='-Zbuild-std=std,panic_abort -Zbuild-std-features=optimize_for_size'
        flags='-Zunstable-options -Cpanic=immediate-abort'
        export RUSTC_BOOTSTRAP=1
        [ -x "$lld" ] || lld=$(command -v wasm-ld || command -v rust-lld) ||
            fail 'no linker for wasm' 'rustup toolchain install stable (it brings rust-lld), or: apt-get install lld'
        export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="$lld"
    else
        fail "$RUSTC has no standard library for $TARGET. Either of these brings one:" \
            "rustup target add $TARGET" \
            'apt-get install --no-install-recommends rustc-web rust-web-src    (Debian 12; what CI uses)'
    fi
    # No path of this machine may end up in a component.
    export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="$flags \
--remap-path-prefix=$repository=. \
--remap-path-prefix=$build=target \
--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo \
--remap-path-prefix=$(CDPATH='' cd -P -- "$sysroot/lib/rustlib/src/rust" 2>/dev/null && pwd || echo /rustc)=rust"
}

# Builds every component into directory $1, under the paths of `components`.
build_into() {
    say "building with $("$RUSTC" --version)"
    (cd "$here" && cargo build --locked --quiet --package componentize)
    # shellcheck disable=SC2046,SC2086  # words on purpose
    (cd "$here" && cargo build --locked --quiet --release --target "$TARGET" $std \
        $(components | sed 's/.* /--package /'))
    components | while read -r component crate; do
        componentize "$crate" "$1/$component"
    done
    write_template
    # shellcheck disable=SC2086  # words on purpose
    (cd "$build/template" && cargo build --locked --quiet --release --target "$TARGET" $std)
    componentize guest "$1/$TEMPLATE"
}

# The module of crate $1 into the component $2.
componentize() {
    mkdir -p "$(dirname "$2")"
    "$build/debug/componentize" "$build/$TARGET/release/$(printf %s "$1" | tr - _).wasm" "$2"
}

case ${1:-} in
'')
    find_toolchain
    build_into "$repository"
    (cd "$repository" && all | while read -r component; do wc -c "$component"; done)
    ;;
--check)
    find_toolchain
    [ "$("$RUSTC" --version)" = "$PINNED" ] ||
        fail "this is $("$RUSTC" --version), the committed components are built with $PINNED" \
            'apt-get install --no-install-recommends rustc-web rust-web-src    (Debian 12)'
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh"' EXIT
    build_into "$fresh"
    passed=0 failed=0
    while read -r component; do
        if cmp -s "$fresh/$component" "$repository/$component"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            say "$component is not there, or not what its source builds: run guests/build.sh and commit it"
        fi
    done <<LIST
$(all)
LIST
    echo "components: $passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    ;;
--test)
    (cd "$here" && cargo test --locked --quiet)
    ;;
*)
    fail "unknown argument: $1" 'usage: guests/build.sh [--check | --test]'
    ;;
esac
