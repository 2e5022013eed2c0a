/* The version of everything that is built here. */
#ifndef MT_BASE_VERSION_H
#define MT_BASE_VERSION_H

#define MT_VERSION "0.1.0"

#endif
