#!/usr/bin/env bash
# The scripts of examples/ whose data they make themselves, with few steps: what they show is there.
. "$(dirname "$0")/common.sh"
export QKV

# Preferences: answers get the preferred form.
try 0 "$SOURCE/examples/preferences/run" dates 500
rate() { # rate WHEN N: of 100 answers those with the preferred form (1) or the right date (2)
    sed -nE "s/^$1: +of 201 answers ([0-9]+) % have the preferred form, ([0-9]+) % name the right date$/\\$2/p" out
}
before=$(rate before 1) after=$(rate after 1)
[ "${before:-100}" -lt 70 ] || fail "before the preferences ${before:-no} % of the answers have the preferred form"
[ "${after:-0}" -ge $((${before:-100} + 20)) ] || fail "the preferred form has ${after:-no} %, and before $before %"
before=$(rate before 2) after=$(rate after 2)
[ "${after:-0}" -ge $((${before:-100} - 15)) ] || fail "the right date has ${after:-no} %, and before $before %"

# A teacher: the student that it taught has a lower loss than the one without it.
try 0 "$SOURCE/examples/teacher/run" students 100
loss() { # loss WHO
    sed -nE "s/^$1: best validation loss ([0-9.]+)$/\1/p" out
}
awk -v teacher="$(loss teacher)" -v alone="$(loss alone)" -v taught="$(loss taught)" \
    'BEGIN { exit !(teacher + 0 > 0 && teacher < taught && taught < alone - 0.03) }' ||
    fail "the losses are $(tr '\n' ' ' <out)"
finish
