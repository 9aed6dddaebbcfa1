/* Time, for reports and progress only: no result depends on it. */
#ifndef IPULUA_BASE_CLOCK_H
#define IPULUA_BASE_CLOCK_H
double clock_seconds(void); /* monotonic */
double clock_epoch(void);   /* seconds since 1970 */
#endif
