#!/bin/sh
# Stands in for `skein` in tests of hooks: one line per call, `EVENT PAYLOAD`.
printf '%s %s\n' "$2" "$(cat)" >> "$HOOK_LOG"
