/* Models and packs are read in place. Where such a file is cut short meanwhile, reading it raises SIGBUS in whatever
 * thread reads, and no exception of the interpreter can come of that: the handler tells it and ends the process. */

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "api/lost_file.h"

static char told[512];
static size_t told_bytes;
static int code;
static struct termios terminal;
static int has_terminal;

static void lost(int number, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_code != BUS_ADRERR) {
        /* Another fault: it comes again at once, and takes its usual course. */
        signal(number, SIG_DFL);
        return;
    }
    /* A chat may have turned the echo off; nobody else is left to turn it on. */
    if (has_terminal)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    ssize_t written = write(STDERR_FILENO, told, told_bytes);
    (void)written;
    _exit(code);
}

int ork_end_on_lost_file(const char *line, int32_t exit_code) {
    size_t length = strlen(line);
    if (length + 1 > sizeof told)
        return -1;
    memcpy(told, line, length);
    told[length] = '\n';
    told_bytes = length + 1;
    code = exit_code;
    has_terminal = tcgetattr(STDIN_FILENO, &terminal) == 0;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = lost;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL);
}
