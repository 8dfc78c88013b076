// The scheduler behind emulator.h. Fibers only say what they wait for; all bookkeeping is done here, on the caller's
// stack. Compile it without -fsanitize=thread: what it touches is not the kernel's. It tells the thread sanitizer,
// where there is one, which CUDA thread runs and which meetings order them, and nothing more: blocks and threads are
// unordered otherwise.
#include "emulator.h"

#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#ifndef __x86_64__
#error "the fibers' switch is written for x86-64"
#endif

#ifdef __SANITIZE_ADDRESS__
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** bottom_old, size_t* size_old);
void __asan_poison_memory_region(const volatile void* at, size_t bytes);
void __asan_unpoison_memory_region(const volatile void* at, size_t bytes);
}
#else
static void __asan_poison_memory_region(const volatile void*, size_t) {}
static void __asan_unpoison_memory_region(const volatile void*, size_t) {}
#endif

#ifdef EMULATION_TSAN
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* at);
void __tsan_release(void* at);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulation {

Options options;

namespace {

constexpr size_t kStackBytes = 64 << 10, kSharedBytes = 64 << 10, kRedZone = 64;

extern "C" void emulation_switch(void** save, void* to);
asm(R"(
.text
.type emulation_switch, @function
emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulation_switch, .-emulation_switch
)");

// What the sanitizers are told. Meetings are the keys that order threads.
struct Sanitizer {
#ifdef EMULATION_TSAN
  static constexpr bool kThreads = true;
  static constexpr unsigned kUnordered = 1;  // a switch orders nothing
  static void* current() { return __tsan_get_current_fiber(); }
  static void* create() { return __tsan_create_fiber(0); }
  static void destroy(void* fiber) { __tsan_destroy_fiber(fiber); }
  static void become(void* fiber) { __tsan_switch_to_fiber(fiber, kUnordered); }
  static void acquire(void* key) { __tsan_acquire(key); }
  static void release(void* key) { __tsan_release(key); }
  // The scheduler's allocations would count as accesses.
  static void ignore(bool on) {
    on ? AnnotateIgnoreReadsBegin(__FILE__, __LINE__) : AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    on ? AnnotateIgnoreWritesBegin(__FILE__, __LINE__) : AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  }
#else
  static constexpr bool kThreads = false;
  static void* current() { return nullptr; }
  static void* create() { return nullptr; }
  static void destroy(void*) {}
  static void become(void*) {}
  static void acquire(void*) {}
  static void release(void*) {}
  static void ignore(bool) {}
#endif
};

enum class Wants { start, turn, barrier, warp, ballot, shuffle, exit, fail };
constexpr const char* kNames[] = {"", "", "__syncthreads", "__syncwarp", "__ballot_sync", "__shfl_sync", "", ""};

struct Request {
  Wants wants = Wants::start;
  unsigned mask = 0;
  int source = 0;      // the lane that a shuffle reads
  uint64_t value = 0;  // given to it, and then what it gave
};

// Threads that have come to a barrier or a collective, and wait for the others.
struct Meeting {
  Wants wants;
  unsigned mask, lanes;  // of a warp: who is to come, who has come
  std::vector<int> members;
  char key = 0;  // the sanitizer's: heap memory, so that it is new with every meeting
};

struct Block;

struct Thread {
  Block* block = nullptr;
  int number = 0;
  Request request;
  void *stack = nullptr, *stack_pointer = nullptr, *fake_stack = nullptr, *fiber = nullptr;
  std::shared_ptr<Meeting> left;  // the meeting it comes from
};

struct Shared {
  const void* key;
  size_t offset;
};

struct Block {
  uint3 index;
  std::vector<Thread> threads;
  int alive = 0;
  std::shared_ptr<Meeting> barrier;
  std::vector<std::vector<std::shared_ptr<Meeting>>> warps;  // open meetings of each
  std::vector<unsigned> live;                                // lanes of each that have not returned
  char* arena = nullptr;
  size_t used = 0;
  std::vector<Shared> variables;
};

struct Scheduler {
  dim3 grid, block;
  void (*body)(void*);
  void* context;
  std::mt19937_64 random;
  std::vector<Thread*> ready;
  size_t head = 0;  // of ready, where the order is first come, first served
  Thread* running = nullptr;
  std::string error;
  void *stack_pointer = nullptr, *fake_stack = nullptr, *fiber = nullptr;
  const void* stack = nullptr;  // of the caller, as the address sanitizer knows it
  size_t stack_bytes = 0;
  char end = 0;  // the sanitizer's key of the launch's end
};

Scheduler* scheduler = nullptr;
std::vector<void*> spare_stacks;
char fence_key;

// ---- on a fiber ------------------------------------------------------------------------------------------------

void give_control() {
  Thread* self = scheduler->running;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&self->fake_stack, scheduler->stack, scheduler->stack_bytes);
#endif
  Sanitizer::become(scheduler->fiber);
  emulation_switch(&self->stack_pointer, scheduler->stack_pointer);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(self->fake_stack, &scheduler->stack, &scheduler->stack_bytes);
#endif
}

void fiber_main() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &scheduler->stack, &scheduler->stack_bytes);
#endif
  scheduler->body(scheduler->context);
  scheduler->running->request.wants = Wants::exit;
  give_control();
  abort();  // a fiber that has ended does not run again
}

uint64_t ask(const Request& request) {
  Thread* self = scheduler->running;
  self->request = request;
  give_control();
  return self->request.value;
}

// ---- the scheduler ---------------------------------------------------------------------------------------------

template <class F>
void as(const Thread& thread, F f) {
  Sanitizer::become(thread.fiber);
  f();
  Sanitizer::become(scheduler->fiber);
}

void problem(const Thread& at, const std::string& what) {
  if (!scheduler->error.empty()) return;
  const uint3 b = at.block->index;
  scheduler->error = "block (" + std::to_string(b.x) + ", " + std::to_string(b.y) + ") thread " +
                     std::to_string(at.number) + ": " + what;
}

void give_stack(Thread& thread) {
  if (spare_stacks.empty()) {
    void* stack =
        mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) throw std::bad_alloc();
    spare_stacks.push_back(stack);
  }
  thread.stack = spare_stacks.back();
  spare_stacks.pop_back();
  void** top = reinterpret_cast<void**>(static_cast<char*>(thread.stack) + kStackBytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(fiber_main);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  thread.stack_pointer = top;
  thread.fiber = Sanitizer::create();
}

void take_stack(Thread& thread) {
  if (!thread.stack) return;
  if (Sanitizer::kThreads) {  // a stack that changes hands would look like a race
    Sanitizer::destroy(thread.fiber);
    munmap(thread.stack, kStackBytes);
  } else {
    __asan_unpoison_memory_region(thread.stack, kStackBytes);
    spare_stacks.push_back(thread.stack);
  }
  thread.stack = nullptr;
}

void make_ready(Thread& thread) { scheduler->ready.push_back(&thread); }

void close(Block& block, const std::shared_ptr<Meeting>& meeting) {
  unsigned ballot = 0;
  uint64_t given[32] = {};
  if (meeting->wants == Wants::ballot || meeting->wants == Wants::shuffle) {
    for (int member : meeting->members) {
      given[member % 32] = block.threads[member].request.value;
      ballot |= static_cast<unsigned>(given[member % 32] != 0) << member % 32;
    }
  }
  for (int member : meeting->members) {
    Thread& thread = block.threads[member];
    if (meeting->wants == Wants::ballot) thread.request.value = ballot;
    if (meeting->wants == Wants::shuffle) {
      if (!(meeting->mask >> thread.request.source & 1))
        problem(thread,
                "__shfl_sync reads lane " + std::to_string(thread.request.source) + ", which is not in the mask");
      thread.request.value = given[thread.request.source];
    }
    thread.left = meeting;
    make_ready(thread);
  }
}

void meet(Thread& thread) {
  Block& block = *thread.block;
  const Request& request = thread.request;
  std::shared_ptr<Meeting> meeting;
  if (request.wants == Wants::barrier) {
    if (block.alive != static_cast<int>(block.threads.size()))
      return problem(thread, "__syncthreads after another thread of the block has returned");
    if (!block.barrier) block.barrier.reset(new Meeting{Wants::barrier, ~0u, 0, {}});
    meeting = block.barrier;
  } else {
    const unsigned lane = thread.number % 32, live = block.live[thread.number / 32];
    if (!(request.mask >> lane & 1)) return problem(thread, "a lane is not in the mask of its own collective");
    if (request.mask & ~live) return problem(thread, "a mask names lanes that have returned or do not exist");
    auto& open = block.warps[thread.number / 32];
    for (const auto& other : open) {
      if (other->mask == request.mask) {
        meeting = other;
      } else if (other->lanes & request.mask && other->mask >> lane & 1) {
        return problem(thread, "a mask names lanes that wait for this one in a collective with another mask");
      }
    }
    if (!meeting)
      open.emplace_back(meeting = std::shared_ptr<Meeting>(new Meeting{request.wants, request.mask, 0, {}}));
    if (meeting->wants != request.wants)
      return problem(thread, std::string(kNames[static_cast<int>(request.wants)]) + " meets " +
                                 kNames[static_cast<int>(meeting->wants)]);
  }
  meeting->members.push_back(thread.number);
  meeting->lanes |= 1u << thread.number % 32;
  as(thread, [&] { Sanitizer::release(&meeting->key); });
  if (request.wants == Wants::barrier) {
    if (meeting->members.size() < block.threads.size()) return;
    block.barrier.reset();
  } else {
    if (static_cast<int>(meeting->members.size()) < __builtin_popcount(meeting->mask)) return;
    auto& open = block.warps[thread.number / 32];
    open.erase(std::find(open.begin(), open.end(), meeting));
  }
  close(block, meeting);
}

void leave(Thread& thread) {
  Block& block = *thread.block;
  if (block.barrier) problem(thread, "returns while threads of its block wait at __syncthreads");
  for (const auto& meeting : block.warps[thread.number / 32])
    if (meeting->mask >> thread.number % 32 & 1)
      problem(thread,
              std::string("returns while its warp waits for it at ") + kNames[static_cast<int>(meeting->wants)]);
  --block.alive;
  block.live[thread.number / 32] &= ~(1u << thread.number % 32);
  as(thread, [&] { Sanitizer::release(&scheduler->end); });
  take_stack(thread);
}

Thread* next_thread() {
  auto& ready = scheduler->ready;
  if (options.seed) {
    std::swap(ready[scheduler->random() % ready.size()], ready.back());
    Thread* thread = ready.back();
    ready.pop_back();
    return thread;
  }
  Thread* thread = ready[scheduler->head++];
  if (scheduler->head == ready.size()) ready.clear(), scheduler->head = 0;
  return thread;
}

void resume(Thread& thread) {
  if (!thread.stack) give_stack(thread);
  if (thread.left) as(thread, [&] { Sanitizer::acquire(&thread.left->key); });
  thread.left.reset();
  const unsigned n = thread.number;
  threadIdx = {n % blockDim.x, n / blockDim.x % blockDim.y, n / (blockDim.x * blockDim.y)};
  blockIdx = thread.block->index;
  scheduler->running = &thread;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&scheduler->fake_stack, thread.stack, kStackBytes);
#endif
  Sanitizer::become(thread.fiber);
  emulation_switch(&scheduler->stack_pointer, thread.stack_pointer);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(scheduler->fake_stack, nullptr, nullptr);
#endif
}

void open_block(Block& block, uint64_t number) {
  const dim3 grid = scheduler->grid, size = scheduler->block;
  const int threads = static_cast<int>(size.x * size.y * size.z), warps = (threads + 31) / 32;
  block.index = {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
                 static_cast<unsigned>(number / grid.x / grid.y)};
  block.threads.resize(threads);
  block.alive = threads;
  block.warps.resize(warps);
  block.live.assign(warps, ~0u);
  if (threads % 32) block.live.back() = ~0u >> (32 - threads % 32);
  block.arena = static_cast<char*>(aligned_alloc(128, kSharedBytes));
  __asan_poison_memory_region(block.arena, kSharedBytes);
  block.variables.reserve(16);  // it grows on fibers, where an allocation would count as an access
  for (int i = 0; i < threads; ++i) {
    block.threads[i].block = &block;
    block.threads[i].number = i;
    make_ready(block.threads[i]);
  }
}

void close_block(Block& block) {
  for (Thread& thread : block.threads) take_stack(thread);
  __asan_unpoison_memory_region(block.arena, kSharedBytes);
  free(block.arena);
}

void run_blocks() {
  const dim3 grid = scheduler->grid;
  std::vector<uint64_t> order(uint64_t{grid.x} * grid.y * grid.z);
  for (uint64_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;  // taken from the back
  if (options.seed) std::shuffle(order.begin(), order.end(), scheduler->random);
  std::vector<std::unique_ptr<Block>> resident;
  while (scheduler->error.empty()) {
    while (!order.empty() && static_cast<int>(resident.size()) < options.resident) {
      resident.emplace_back(new Block);
      open_block(*resident.back(), order.back());
      order.pop_back();
    }
    if (resident.empty()) break;
    if (scheduler->ready.empty()) {
      Thread& stuck = *std::find_if(resident[0]->threads.begin(), resident[0]->threads.end(),
                                    [](const Thread& t) { return t.request.wants != Wants::exit; });
      problem(stuck, std::string("deadlock at ") + kNames[static_cast<int>(stuck.request.wants)]);
      break;
    }
    Thread& thread = *next_thread();
    resume(thread);
    switch (thread.request.wants) {
      case Wants::turn:
        make_ready(thread);
        break;
      case Wants::exit:
        leave(thread);
        if (thread.block->alive == 0) {
          Block* done = thread.block;
          close_block(*done);
          resident.erase(std::find_if(resident.begin(), resident.end(), [=](auto& b) { return b.get() == done; }));
        }
        break;
      case Wants::fail:
        break;
      default:
        meet(thread);
    }
  }
  for (auto& block : resident) close_block(*block);
}

}  // namespace

void fail(const char* format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  problem(*scheduler->running, text);
  ask({Wants::fail});
  abort();
}

void run(dim3 grid, dim3 block, void (*body)(void*), void* context) {
  if (!grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 || grid.x > 0x7fffffffu)
    throw std::runtime_error("a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " blocks");
  const unsigned threads = block.x * block.y * block.z;
  if (!threads || threads > 1024) throw std::runtime_error("a block of " + std::to_string(threads) + " threads");
  Scheduler launch{grid, block, body, context};
  launch.random.seed(options.seed);
  launch.fiber = Sanitizer::current();
  scheduler = &launch;
  gridDim = grid, blockDim = block;
  Sanitizer::ignore(true);
  run_blocks();
  Sanitizer::ignore(false);
  Sanitizer::acquire(&launch.end);
  scheduler = nullptr;
  if (!launch.error.empty()) throw std::runtime_error(launch.error);
}

void* shared(const void* key, size_t bytes) {
  Block& block = *scheduler->running->block;
  for (const Shared& variable : block.variables)
    if (variable.key == key) return block.arena + variable.offset;
  const size_t offset = block.used;
  block.used = (offset + bytes + kRedZone + 127) / 128 * 128;
  if (block.used > kSharedBytes) fail("more than %zu bytes of shared memory", kSharedBytes);
  block.variables.push_back({key, offset});
  __asan_unpoison_memory_region(block.arena + offset, bytes);
  for (size_t i = 0; i < bytes; ++i) static_cast<volatile char*>(block.arena)[offset + i] = '\xff';
  return block.arena + offset;
}

void syncthreads() { ask({Wants::barrier}); }
void syncwarp(unsigned mask) { ask({Wants::warp, mask}); }
unsigned ballot(unsigned mask, bool predicate) {
  return static_cast<unsigned>(ask({Wants::ballot, mask, 0, predicate}));
}
void shuffle(unsigned mask, int source, const void* value, void* result, size_t bytes) {
  Request request{Wants::shuffle, mask, source};
  memcpy(&request.value, value, bytes);
  const uint64_t given = ask(request);
  memcpy(result, &given, bytes);
}
int lane() { return scheduler->running->number % 32; }
void give_way() {
  if (options.seed) ask({Wants::turn});
}
void fence() {
  Sanitizer::release(&fence_key);
  Sanitizer::acquire(&fence_key);
}

}  // namespace emulation
