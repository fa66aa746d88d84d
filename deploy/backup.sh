#!/bin/sh
# Copies the bucket of a running server, and verifies the copy: backup.sh BUCKET_DIRECTORY TARGET_DIRECTORY
# It is safe to run again at any time: objects never change, so only new ones are copied.
set -eu
source=$1
target=$2
export PATH="${DS_BIN:-/opt/durable-sessions/.venv/bin}:$PATH"

ds flush
mkdir -p "$target"
tries=3
# An object that the server replaces meanwhile stays for ten minutes. Should a copy take longer, try once more.
until cp -R -n "$source/." "$target/" && ds verify --bucket-only --bucket "$target"; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || exit 1
  ds flush
done
# Remove what the copy no longer refers to. Not by gc itself: that writes a manifest of its own into the bucket,
# which would stand in the way of the source's next one.
ds gc --dry-run --bucket "$target" | sed -n 's/: .*//p' | while read -r object; do rm -f "$target/$object"; done
