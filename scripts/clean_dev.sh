#!/bin/sh
# Removes what `make dev` keeps: ./.weir, and the data that went elsewhere because the servers' user could not reach the checkout (a file named
# "elsewhere" in ./.weir says where).
set -eu
cd "$(dirname "$0")/.."
[ -d .weir ] || { echo "clean-dev: there is no .weir, nothing to remove"; exit 0; }

in_use() {
    echo "clean-dev: $1 is in use: stop \`make dev\` first" >&2
    exit 1
}
# A running server's folder is locked.
for lock in $(find .weir -name lock -type f); do
    flock --nonblock "$lock" true || in_use "$(dirname "$lock")"
done
find .weir -name elsewhere -type f | while read -r pointer; do
    place=$(cat "$pointer")
    case $place in
    /var/lib/weir-* | /tmp/weir-*)
        [ ! -e "$place/lock" ] || flock --nonblock "$place/lock" true || in_use "$place"
        rm -rf -- "$place"
        echo "clean-dev: removed $place"
        ;;
    *) echo "clean-dev: $pointer names $place, which is not ours: left alone" >&2 ;;
    esac
done
rm -rf .weir
echo "clean-dev: removed .weir"
