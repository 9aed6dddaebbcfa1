/* The processor's pause instruction, for threads that spin. */
#ifndef IPULUA_BASE_PAUSE_H
#define IPULUA_BASE_PAUSE_H
static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}
#endif
