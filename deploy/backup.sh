#!/bin/sh
# Copies the bucket of a running server, and verifies the copy: backup.sh BUCKET_DIRECTORY TARGET_DIRECTORY
# It is safe to run again at any time: objects never change, so only those that are missing or were not copied
# whole are copied.
set -eu
if [ $# -ne 2 ]; then
  echo "usage: $0 BUCKET_DIRECTORY TARGET_DIRECTORY" >&2
  exit 2
fi
source=$1
target=$2
partial=$target/.partial
export PATH="${DS_BIN:-/opt/durable-sessions/.venv/bin}:$PATH"

same_size() { [ "$(wc -c < "$1")" -eq "$(wc -c < "$2")" ]; }

# Each object comes under another name and then takes its place, so that a copy that breaks off leaves no part of one.
copy() {
  (cd "$source" && find . -type f) | while read -r object; do
    if [ -f "$target/$object" ] && $is_same "$source/$object" "$target/$object"; then continue; fi
    mkdir -p "$(dirname "$target/$object")"
    cp "$source/$object" "$partial" || exit 1
    mv -f "$partial" "$target/$object" || exit 1
  done
}

ds flush
mkdir -p "$target"
rm -f "$partial"
tries=3
is_same=same_size
# An object that the server replaces meanwhile stays for ten minutes. Should a copy take longer, try once more, and
# compare every byte then: the copy may be damaged.
until copy && ds verify --bucket-only --bucket "$target"; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || exit 1
  is_same="cmp -s"
  ds flush
done
# Remove what the copy no longer refers to. Not by gc itself: that writes a manifest of its own into the bucket,
# which would stand in the way of the source's next one.
removable=$(ds gc --dry-run --json --bucket "$target")
echo "$removable" | python3 -c 'import json, sys; [print(one["path"]) for one in json.load(sys.stdin)["objects"]]' |
  while read -r object; do rm -f "$target/$object"; done
