# Read by the shell of `make shell`, after the user's own start file.
[ -f ~/.bashrc ] && . ~/.bashrc
PATH="$SLUICE_SHELL_PROGRAMS:$PATH"
PS1="(sluice) ${PS1:-\w\$ }"
