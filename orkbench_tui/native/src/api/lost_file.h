/* From now on a mapped file that is cut short ends the process with line on standard error and that exit code. */
int ork_end_on_lost_file(const char *line, int32_t exit_code);
