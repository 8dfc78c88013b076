#include "aggregate_impl.h"
