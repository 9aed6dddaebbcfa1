# Completion of the ipulua command for bash.

# Succeeds when a script stands before the word at the cursor: what follows is the script's own.
_ipulua_has_script() {
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --threads|--seed|--profile|--target|--ipus|--replicas|--ipus-per-replica|--instances|-e|-l)
        [[ ${COMP_WORDS[i+1]} == = ]] && ((i++))   # bash takes --seed=1 for three words
        ((i++)) ;;
      -|[!-]*) return 0 ;;
    esac
  done
  return 1
}

# What the command's help says that there are.
_ipulua_chips() {
  "${COMP_WORDS[0]}" --help 2>/dev/null | sed -n 's/.*chip to price for: \(.*\) or a JSON file/\1/p' | tr -d ,
}

_ipulua() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  if [[ $word == = ]]; then word=
  elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  word=${word//\\/} word=${word#[\"\']}   # as the file is called: readline quotes again
  [[ $COMP_CWORD == 2 && $before == info && ! -e info ]] && return   # it takes no arguments
  if _ipulua_has_script; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
  fi
  case $before in
    --target) mapfile -t COMPREPLY < <(compgen -W "$(_ipulua_chips)" -- "$word"; compgen -f -X '!*.json' -- "$word"); return ;;
    --profile) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
    --threads|--seed|--ipus|--replicas|--ipus-per-replica|--instances|-e|-l) return ;;
  esac
  case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "-e -i -l -v -E -W -- --threads --seed --profile --estimate --target --ipus --replicas --ipus-per-replica --instances --help --version" -- "$word") ;;
    *) mapfile -t COMPREPLY < <(compgen -W info -- "$word"; compgen -f -X '!*.lua' -- "$word"; compgen -d -- "$word") ;;
  esac
}
complete -o filenames -F _ipulua ipulua
