#include "stream/fake_device.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "core/topk.hpp"
#include "rowmax/error.hpp"

namespace rowmax::test {

namespace {

struct Stream {
    std::deque<std::function<void()>> work;
};

struct Event {
    Stream* stream = nullptr;  ///< where it was recorded last
    int recorded = 0;
    int come = 0;
};

FakeDeviceUse use;
std::size_t limit = 0;
std::map<void*, std::size_t> taken;

Stream& stream_of(const core::Place& place) {
    return *static_cast<Stream*>(place.stream);
}

void check_ordinal(int ordinal) {
    if (ordinal >= 0 && ordinal < fake_devices) return;
    throw Error(ErrorCode::device, "there is no fake device " + std::to_string(ordinal));
}

void run_until(Event& event, int count) {
    while (event.come < count) {
        const std::function<void()> work = std::move(event.stream->work.front());
        event.stream->work.pop_front();
        work();
    }
}

void* take(std::size_t bytes, std::size_t& now, std::size_t& peak) {
    void* memory = ::operator new(bytes);
    std::memset(memory, 0xff, bytes);  // NaN, as a number
    taken[memory] = bytes;
    now += bytes;
    peak = std::max(peak, now);
    return memory;
}

void give_back(void* memory, std::size_t& now) {
    std::memset(memory, 0xff, taken.at(memory));
    now -= taken.at(memory);
    taken.erase(memory);
    ::operator delete(memory);
}

int count() {
    return fake_devices;
}
std::string problem() {
    return {};
}
std::string name(int ordinal) {
    return "fake " + std::to_string(ordinal);
}
std::size_t free_bytes(int) {
    return limit == 0 ? std::size_t{1} << 40 : limit - use.device;
}
void* allocate(int ordinal, std::size_t bytes) {
    check_ordinal(ordinal);
    if (limit > 0 && use.device + bytes > limit)
        throw Error(ErrorCode::out_of_memory, "fake:" + std::to_string(ordinal) + ": no memory");
    return take(bytes, use.device, use.device_peak);
}
void release(void* memory) noexcept {
    give_back(memory, use.device);
}
void* allocate_pinned(int ordinal, std::size_t bytes) {
    check_ordinal(ordinal);
    return take(bytes, use.pinned, use.pinned_peak);
}
void release_pinned(void* memory) noexcept {
    give_back(memory, use.pinned);
}
void* make_stream(int ordinal) {
    check_ordinal(ordinal);
    ++use.streams;
    return new Stream;
}
void end_stream(void* stream) noexcept {
    --use.streams;
    auto* ended = static_cast<Stream*>(stream);
    for (; !ended->work.empty(); ended->work.pop_front()) ended->work.front()();
    delete ended;
}
void* make_event(int ordinal) {
    check_ordinal(ordinal);
    ++use.events;
    return new Event;
}
void end_event(void* event) noexcept {
    --use.events;
    delete static_cast<Event*>(event);
}
void record(const core::Place& place, void* event) {
    auto* recorded = static_cast<Event*>(event);
    recorded->stream = &stream_of(place);
    const int number = ++recorded->recorded;
    stream_of(place).work.emplace_back([recorded, number] { recorded->come = number; });
}
void wait(const core::Place& place, void* event) {
    auto* awaited = static_cast<Event*>(event);
    stream_of(place).work.emplace_back([awaited, number = awaited->recorded] { run_until(*awaited, number); });
}
void finish(void* event) {
    auto* awaited = static_cast<Event*>(event);
    run_until(*awaited, awaited->recorded);
}
void copy(const core::Place& place, void* to, const void* from, std::size_t bytes) {
    use.copied += bytes;
    stream_of(place).work.emplace_back([=] { std::memcpy(to, from, bytes); });
}

bool captured(const core::Place&) {
    return false;
}
void drain(const core::Place& place) {
    Stream& stream = stream_of(place);
    for (; !stream.work.empty(); stream.work.pop_front()) stream.work.front()();
}

void score_later(const ScoreRequest& request, const ScoreOutputs& outputs) {
    const Device& device = request.options.device;
    const core::Place place{true, device.ordinal, device.stream, nullptr};
    constexpr std::size_t scratch_bytes = 100;
    const std::size_t bytes = scratch_bytes * static_cast<std::size_t>(outputs.scores.shape[1]);
    void* scratch = device.allocate(device.context, bytes);
    ScoreRequest later = request;
    later.options.device = {};
    later.options.validate = false;  // a device takes offsets that begin anywhere
    later.options.threads = 1;
    stream_of(place).work.emplace_back([=] {
        if (taken.count(scratch) == 0) throw std::logic_error("scratch memory was given back before its use");
        std::memset(scratch, 0, bytes);
        rowmax::score(later, outputs);
    });
}

// A row of the CPU, which reads a device's memory as any other.
const core::Kernel& choose(const core::Params& params, std::string_view) {
    check_ordinal(params.place.ordinal);
    for (const core::Kernel& row : core::cpu_kernels()) {
        const bool takes = row.missing_features().empty() && row.refuse(params).empty();
        if (takes && params.dtype != DType::f64) return row;
    }
    throw Error(ErrorCode::not_implemented, "the fake has no kernel for " + std::string(name_of(params.dtype)));
}

struct Entry {
    float score;
    std::int64_t document;
};

std::size_t lists_bytes(std::int64_t queries, std::int64_t k) {
    return static_cast<std::size_t>(2 * queries * k) * sizeof(Entry);
}

// As on a device: half of the lists is read, the other written.
void merge_query(const core::TopKChunk& chunk, std::int64_t query) {
    auto* lists = static_cast<Entry*>(chunk.lists) + query * chunk.k;
    const Entry* list = lists + (chunk.number % 2 == 0 ? 0 : chunk.queries * chunk.k);
    Entry* next = lists + (chunk.number % 2 == 0 ? chunk.queries * chunk.k : 0);
    core::TopK best(1, chunk.k);
    for (std::int64_t i = 0; i < std::min(chunk.k, chunk.first); ++i)
        best.push(0, static_cast<double>(list[i].score), list[i].document);
    for (std::int64_t j = 0; j < chunk.documents; ++j)
        best.push(0, static_cast<double>(chunk.scores[query * chunk.documents + j]), chunk.first + j);
    const std::vector<core::Hit> ranked = best.ranked(0);
    const auto kept = static_cast<std::int64_t>(ranked.size());
    for (std::int64_t i = 0; i < kept; ++i) {
        const core::Hit& hit = ranked[static_cast<std::size_t>(i)];
        next[i] = {static_cast<float>(hit.score), hit.document};
        if (chunk.best == nullptr) continue;
        chunk.best[query * kept + i] = static_cast<float>(hit.score);
        chunk.index[query * kept + i] = hit.document;
    }
}

void merge(const core::Place& place, const core::TopKChunk& chunk) {
    stream_of(place).work.emplace_back([chunk] {
        for (std::int64_t i = 0; i < chunk.queries; ++i) merge_query(chunk, i);
    });
}

void wake(int ordinal) {
    check_ordinal(ordinal);
}

constexpr core::DeviceRuntime runtime{
    &count,          &problem,     &name,       &wake,       &free_bytes, &allocate, &release, &allocate_pinned,
    &release_pinned, &make_stream, &end_stream, &make_event, &end_event,  &record,   &wait,    &finish,
    &copy,           &captured,    &drain};
constexpr core::DeviceTopK lists{&lists_bytes, &merge, nullptr, nullptr};

}  // namespace

const stream::DeviceBackend& fake_backend() {
    static const stream::DeviceBackend backend{&runtime, &lists, &score_later, &choose};
    return backend;
}

FakeDeviceUse& fake_use() {
    return use;
}

void limit_fake_memory(std::size_t bytes) {
    limit = bytes;
}

}  // namespace rowmax::test
