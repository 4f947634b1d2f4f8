"""The scripts of `kaa completion`, one function for each shell; see `completion`.

Each is made of a table of places. Names of places, verbs and options are letters, digits, dashes
and blanks, and lines of help hold no quotes, so that nothing in the table needs escaping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaa.cli.completion import CompletionPlace

_BASH: Final = """\
_kaa_completion() {
  local word=${COMP_WORDS[COMP_CWORD]} place=kaa verbs= options= i line
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$place ${COMP_WORDS[i]}" in
      @PLACES@) place="$place ${COMP_WORDS[i]}" ;;
    esac
  done
  case $place in
@TABLE@
  esac
  COMPREPLY=()
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  elif [[ -n $verbs ]]; then
    COMPREPLY=($(compgen -W "$verbs" -- "$word"))
  else
    while IFS=, read -r type value; do
      case $type in
        dir) compopt -o dirnames ;;
        file) compopt -o default ;;
        plain) COMPREPLY+=("$value") ;;
      esac
    done < <(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _KAA_COMPLETE=bash_complete "$1")
  fi
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
  return 0
}
complete -o nosort -F _kaa_completion kaa
"""

_ZSH: Final = """\
#compdef kaa
_kaa_completion() {
  local place=kaa word
  local -a verbs options found plain
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$place $word" in
      (@PLACES@) place="$place $word" ;;
    esac
  done
  case $place in
@TABLE@
  esac
  if [[ ${words[CURRENT]} == -* ]]; then
    options=("${(@M)options:#${words[CURRENT]}*}")
    _describe -V options options
  elif (( ${#verbs} )); then
    verbs=("${(@M)verbs:#${words[CURRENT]}*}")
    _describe -V commands verbs
  else
    found=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT - 1)) \\
      _KAA_COMPLETE=zsh_complete kaa)}")
    for type key help in ${found}; do
      case $type in
        (plain) plain+=("$key") ;;
        (dir) _path_files -/ ;;
        (file) _path_files -f ;;
      esac
    done
    (( ${#plain} )) && compadd -U -V names -a plain
  fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _kaa_completion "$@"
else
  compdef _kaa_completion kaa
fi
"""

_FISH: Final = """\
function _kaa_completion
  set -l place kaa
  for word in (commandline -xpc 2>/dev/null; or commandline -opc)[2..-1]
    switch "$place $word"
      case @PLACES@
        set place "$place $word"
    end
  end
  set -l word (commandline -ct)
  switch $place
@TABLE@
  end
  if string match -q -- '-*' $word
    printf '%s\\n' $options
  else if set -q verbs[1]
    printf '%s\\n' $verbs
  else
    for line in (env _KAA_COMPLETE=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=$word kaa)
      set -l parts (string split -m 1 ',' -- $line)
      switch $parts[1]
        case dir
          __fish_complete_directories $word
        case file
          __fish_complete_path $word
        case plain
          echo $parts[2]
      end
    end
  end
end
complete --no-files --keep-order --command kaa --arguments '(_kaa_completion)'
"""


def _filled(script: str, places: Iterable[str], table: Iterable[str]) -> str:
    return script.replace("@PLACES@", "".join(places)).replace("@TABLE@", "\n".join(table))


def _bash(places: Sequence[CompletionPlace]) -> str:
    table: list[str] = []
    for place in places:
        verbs, options = " ".join(place.verbs), " ".join(place.options)
        table.append(f"    '{place.words}') verbs='{verbs}' options='{options}' ;;")
    return _filled(_BASH, "|".join(f"'{place.words}'" for place in places), table)


def _zsh(places: Sequence[CompletionPlace]) -> str:
    def array(words: dict[str, str]) -> str:
        return " ".join(f"'{word}:{text}'" for word, text in words.items())

    table = [
        f"    ('{place.words}') verbs=({array(place.verbs)}) options=({array(place.options)}) ;;"
        for place in places
    ]
    return _filled(_ZSH, "|".join(f"'{place.words}'" for place in places), table)


def _fish(places: Sequence[CompletionPlace]) -> str:
    def words(found: dict[str, str]) -> str:
        return " ".join(f"'{word}\t{text}'" for word, text in found.items())

    table: list[str] = []
    for place in places:
        table.append(f"    case '{place.words}'")
        table.append(f"      set -f verbs {words(place.verbs)}")
        table.append(f"      set -f options {words(place.options)}")
    return _filled(_FISH, " ".join(f"'{place.words}'" for place in places), table)


SCRIPTS: Final[dict[str, Callable[[Sequence[CompletionPlace]], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
