// The launchers of message passing.
#include "entry.h"

extern "C" {

PTD_LAUNCHER(AggregateForward)
PTD_LAUNCHER(AggregateBackward)
PTD_LAUNCHER(MaximumForward)
PTD_LAUNCHER(SegmentSum)
PTD_LAUNCHER(SegmentSpread)
PTD_LAUNCHER(Normalize)
PTD_LAUNCHER(NormalizeBackward)
PTD_LAUNCHER(AttentionForward)
PTD_LAUNCHER(AttentionBackward)
PTD_LAUNCHER(EdgeScoresForward)
PTD_LAUNCHER(EdgeScoresBackward)
}
