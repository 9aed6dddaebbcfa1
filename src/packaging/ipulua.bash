# Completion of the ipulua command for bash.
_ipulua() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  case $before in
    --target) COMPREPLY=($(compgen -W "gc2 gc200 bow c600" -- "$word") $(compgen -f -X '!*.json' -- "$word")); return ;;
    --profile) COMPREPLY=($(compgen -d -- "$word")); return ;;
    --threads|--seed|--ipus|-e|-l) return ;;
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "-e -i -l -v -E -W -- --threads --seed --profile --estimate --target --ipus --help --version" -- "$word")) ;;
    *) COMPREPLY=($(compgen -W info -- "$word") $(compgen -f -X '!*.lua' -- "$word") $(compgen -d -- "$word")) ;;
  esac
}
complete -o filenames -F _ipulua ipulua
