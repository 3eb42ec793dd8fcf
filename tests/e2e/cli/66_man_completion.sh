#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Manual pages and completions come from the tables of commands and options: every page is accepted by scdoc and mandoc and names every
# option; completions are scripts that their shell accepts, and bash completes commands, options, words of a choice, files, runs.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder man
commands=$("$TACHO" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<< "$commands")" -ge 12 ] || fail "commands: $commands"
options_of() { "$TACHO" "$1" --help | sed -n '/^options:/,/^examples:/s/^  *\(-., \)\{0,1\}--\([a-z-]*\).*/\2/p'; }

"$TACHO" help --scdoc > all.scd
for name in NO_COLOR CLICOLOR_FORCE TMPDIR XDG_CACHE_HOME PYTHONPERFSUPPORT; do grep -q "$name" all.scd || fail "no $name in ENVIRONMENT"; done
for c in '' $commands; do
    page=tacho${c:+-$c}.1
    # shellcheck disable=SC2086
    "$TACHO" help --scdoc $c > "$page.scd" || fail "help --scdoc $c"
    for section in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' FILES ENVIRONMENT 'SEE ALSO'; do
        grep -qx "# $section" "$page.scd" || fail "$page has no $section"
    done
    for o in ${c:+$(options_of "$c")}; do
        grep -q -e "\*--$o\*" "$page.scd" || fail "$page does not name --$o"
    done
    if command -v scdoc > /dev/null; then
        scdoc < "$page.scd" > "$page" 2> err || fail "scdoc refuses $page: $(cat err)"
        if command -v mandoc > /dev/null; then
            # scdoc begins sections with an empty paragraph itself
            left=$(mandoc -T lint -W warning "$page" | grep -v 'skipping paragraph macro')
            [ -z "$left" ] || fail "mandoc: $left"
        fi
    fi
done
command -v scdoc > /dev/null || echo "note: no scdoc: pages are not formatted"

for shell in bash zsh fish; do
    "$TACHO" help --completion $shell > "tacho.$shell" || fail "--completion $shell"
    for c in $commands; do
        for o in $(options_of "$c"); do
            [ "$o" = help ] || grep -q -e "$o" "tacho.$shell" || fail "completion of $shell does not know $c --$o"
        done
    done
    command -v $shell > /dev/null || { echo "note: no $shell here"; continue; }
    $shell -n "tacho.$shell" 2> err && [ ! -s err ] || fail "$shell refuses its completion: $(cat err)"
done
expect 2 "$TACHO" help --completion tcsh
grep -q 'hint:' "$work/err" || fail "no hint: $(cat "$work/err")"

# what bash offers
complete_words() { # WORD...: the last one is being typed
    PATH=$BUILD:$PATH bash --norc -c 'source ./tacho.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tacho; printf "%s\n" "${COMPREPLY[@]}"' x "$@"
}
touch old.tacho 'my run.tacho' 'odd*$;.tacho'
mkdir folder
has() { # WANTED WORD...
    local wanted=$1
    shift
    complete_words "$@" | grep -qxF -e "$wanted" || fail "'$*' does not offer '$wanted': $(complete_words "$@" | tr '\n' ' ')"
}
has_not() {
    local wanted=$1
    shift
    ! complete_words "$@" | grep -qxF -e "$wanted" || fail "'$*' offers '$wanted'"
}
has report tacho re
has recover tacho re
has_not run tacho re
has --json tacho report --js
has_not --stacks tacho report --s
has --stacks tacho run --st
has perfetto tacho export --format = p
has stacks tacho export -f st
has old.tacho tacho report ol
has 'my run.tacho' tacho report my
has 'my run.tacho' tacho report -o my
has 'my run.tacho' tacho run -- cat my
has 'odd*$;.tacho' tacho report od
has comm= tacho advise --what-if com
has loader.workers= tacho advise --what-if loader.w
has gpt2-tiny tacho train gpt2-t
has --steps tacho train gpt2-tiny --st
has 'my run.tacho' tacho train gpt2-tiny --data my
has_not --steps tacho train ''
has latest tacho report lat
has bash tacho run -- bas
has old.tacho tacho run -- cat ol
has doctor tacho help doc
has timeline tacho top --view = tim
has_not old.tacho tacho top --view ol
has_not old.tacho tacho top --frames ol
# and fish: it completes for us
fish_has() { # WANTED LINE
    HOME=$work fish --no-config -c "source ./tacho.fish; complete -C '$2'" 2> err | cut -f1 | grep -qxF -e "$1" && [ ! -s err ] ||
        fail "fish: '$2' does not offer '$1': $(cat err)"
}
if command -v fish > /dev/null; then
    PATH=$BUILD:$PATH
    fish_has report 'tacho rep'
    fish_has 'my run.tacho' 'tacho report my'
    fish_has folder/ 'tacho doctor --folder fo'
    fish_has loader.workers= 'tacho advise --what-if loader.w'
    fish_has gpt2-tiny 'tacho train gpt2-t'
    fish_has echo 'tacho run -o x --every 3 -- ech'
fi
for shell in zsh fish; do grep -q "overview timeline loader" "tacho.$shell" || fail "$shell does not complete views"; done
exit 0
