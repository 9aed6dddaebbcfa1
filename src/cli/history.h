/* The prompt's history file: one entry a line, a newline inside an entry written as \n, a
 * backslash as \\. It is appended to after each entry, so several prompts share it and a killed
 * one loses nothing. */
#ifndef IPULUA_CLI_HISTORY_H
#define IPULUA_CLI_HISTORY_H
#include <stdbool.h>
#include <stddef.h>

/* Entries offered. The file is cut to so many when it holds twice as many. */
enum { HISTORY_LIMIT = 1000 };

/* The path $XDG_STATE_HOME/ipulua/history, by default below ~/.local/state. It makes the folders.
 * False if that fails. */
bool history_path(char *path, size_t size);
/* Calls visit with each of the last HISTORY_LIMIT entries, oldest first. */
void history_load(const char *path, void (*visit)(void *context, const char *entry), void *context);
void history_append(const char *path, const char *entry);
#endif
