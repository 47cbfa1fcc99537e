#!/bin/sh
# Stands in for an agent program in the conformance suite: writes down its arguments and its input.
{ for word; do printf '%s\0' "$word"; done; } > "$STUB_ARGS"
cat > "$STUB_INPUT"
