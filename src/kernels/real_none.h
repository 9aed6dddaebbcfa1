/* Undefines the macros of real_f32.h and real_f64.h. No include guard, because it is included
 * several times. */
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
