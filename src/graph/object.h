/* Reference-counted objects that attributes of nodes hold. The graph retains them. */
#ifndef IPULUA_GRAPH_OBJECT_H
#define IPULUA_GRAPH_OBJECT_H

typedef struct Object Object;
struct Object {
  _Atomic int references;
  const char *kind; /* "infeed", "outfeed" … */
  void (*destroy)(Object *o);
};
Object *object_retain(Object *o);
void object_release(Object *o); /* NULL is fine */
#endif
