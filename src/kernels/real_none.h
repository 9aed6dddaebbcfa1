/* Takes back the words of real_f32.h and real_f64.h. No guard, on purpose. */
#undef REAL
#undef VECTOR
#undef INTEGERS
#undef LANES
#undef NAME
#undef LOAD
#undef STORE
#undef LOAD_SOME
#undef STORE_SOME
#undef SPLAT
#undef FMA
