// The warp that fills a ring of document tiles: which tiles there are, and what
// their tokens are. How these come is the carrier's business: the copy engine,
// or loads where it cannot read them (document_loads.cuh).
#pragma once

#include <cstdint>

#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/document_loads.cuh"
#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/share.cuh"
#include "cuda/kernels/token_scales.cuh"
#include "cuda/prim/bulk_tensor.cuh"
#include "cuda/prim/cache_policy.cuh"
#include "cuda/prim/launch_order.cuh"

namespace rowmax::cuda {

/// Brings tiles through the copy engine: lane 0 says which boxes. With Scales, all lanes fetch those of the tokens.
/// Memory: that is the limit, and not what is done with the tiles.
template <TokenType Type, bool WholeTiles, bool Scales, bool Memory>
class CopyEngine {
  public:
    /// A document's first token.
    using Place = BoxCorner;
    static constexpr bool keeps_much = false;

    __device__ __forceinline__ CopyEngine(DocumentRing& ring, const TiledArguments& arguments, int, int, const Team&,
                                          std::uint32_t)
        : ring_(ring),
          arguments_(arguments),
          slots_of_tile_(static_cast<int>((arguments.call.params.dim + slot_dims_of(Type) - 1) / slot_dims_of(Type))),
          stages_(WholeTiles ? arguments.call.stages / slots_of_tile_ : arguments.call.stages),
          policy_(Memory ? cache_policy(read_once(arguments.call)) : 0) {}

    __device__ __forceinline__ static Place plain_place(const core::Segments& d, int item) {
        return {0, 0, 0, d.stride_outer == 0 ? 0 : item};
    }
    __device__ __forceinline__ static Place place_of(const core::Segments& d, std::int64_t item,
                                                     const core::Segment& document) {
        if (d.kind != core::SegmentKind::strided) {
            return {0, static_cast<std::int32_t>(document.first_row), 0, 0};
        }
        // A broadcast dimension has size 1 in the tensor map.
        const std::int64_t outer = d.inner == 1 ? item : core::detail::quotient(item, d.inner);
        return {0, 0, d.stride_inner == 0 ? 0 : static_cast<std::int32_t>(item - outer * d.inner),
                d.stride_outer == 0 ? 0 : static_cast<std::int32_t>(outer)};
    }
    __device__ __forceinline__ static Place place_from(const Place& mine, int lane) {
        return {0, from_lane(mine.token, lane), from_lane(mine.inner, lane), from_lane(mine.outer, lane)};
    }

    /// `tile` of the document at `at`, whose boxes lie inside the array or are
    /// filled with zeros.
    __device__ __forceinline__ void send(const Tile& tile, BoxCorner at, int left, std::int64_t first_scale) {
        at.token += tile.base;
        if constexpr (Memory) wait_once();
        if constexpr (Scales) {
            const int count = min(tile.flags.boxes() * box_tokens, left);
            if (count > 0) fetch_scales(arguments_.call.d_scales, first_scale, count);
        }
        if constexpr (WholeTiles) {
            send_whole(tile, at);
        } else {
            send_slots(tile, at);
        }
        __syncwarp();
    }
    __device__ __forceinline__ void send_end(const Tile& end) { send(end, {0, 0, 0, 0}, 0, 0); }

  private:
    static constexpr int tokens = tile_tokens_of(Type);

    __device__ __forceinline__ void send_whole(const Tile& tile, BoxCorner at) {
        const int boxes = tile.flags.boxes();
        if (lane_ == 0) {
            wait_empty();
            ring_.tiles[place_.slot] = tile;
            arrive_with(boxes * slots_of_tile_);
            std::byte* to = ring_.slots + place_.slot * slots_of_tile_ * slot_bytes_of(Type);
#pragma unroll 1
            for (int s = 0; boxes > 0 && s < slots_of_tile_; ++s) {
                copy(to, boxes, at);
                to += slot_bytes_of(Type);
                at.element += slot_dims_of(Type);
            }
        }
        place_.advance(stages_);
    }
    __device__ __forceinline__ void send_slots(const Tile& tile, BoxCorner at) {
        const int boxes = tile.flags.boxes();
        const int slots = boxes == 0 ? 1 : slots_of_tile_;
#pragma unroll 1
        for (int s = 0; s < slots; ++s) {
            if (lane_ == 0) {
                wait_empty();
                if (s == 0) ring_.tiles[place_.slot] = tile;
                arrive_with(boxes);
                if (boxes > 0) copy(ring_.slots + place_.slot * slot_bytes_of(Type), boxes, at);
            }
            at.element += slot_dims_of(Type);
            place_.advance(stages_);
        }
    }

    __device__ __forceinline__ static bool read_once(const Arguments& call) {
        return call.plan.blocks == 1 && call.params.pairs.kind != core::PairKind::list;
    }
    // As late as can be: what a kernel does before costs nothing where the one before it still runs.
    __device__ __forceinline__ void wait_once() {
        if (waited_) return;
        wait_for_memory();
        waited_ = true;
    }
    // The first pass over the ring finds every stage empty.
    __device__ __forceinline__ void wait_empty() {
        wait(&ring_.empty[place_.slot], place_.phase ^ 1U);
    }
    /// Arrives at the stage's barrier, and announces so many boxes.
    __device__ __forceinline__ void arrive_with(int boxes) {
        Barrier* full = &ring_.full[place_.slot];
        if (boxes == 0) return arrive(full);
        arrive_expecting(full, static_cast<std::uint32_t>(boxes * box_bytes));
    }
    /// One slot's boxes, of which there are some.
    __device__ __forceinline__ void copy(std::byte* to, int boxes, BoxCorner at) {
        Barrier* full = &ring_.full[place_.slot];
        if (boxes == tokens / box_tokens) return copy(to, &arguments_.tile, at, full);
#pragma unroll 1
        for (int b = 0; b < boxes; ++b, at.token += box_tokens) {
            copy(to + b * box_bytes, &arguments_.quarter, at, full);
        }
    }
    __device__ __forceinline__ void copy(std::byte* to, const CUtensorMap* map, const BoxCorner& at, Barrier* full) {
        if constexpr (Memory) {
            copy_box(to, map, at, full, policy_);
        } else {
            copy_box(to, map, at, full);
        }
    }

    DocumentRing& ring_;
    const TiledArguments& arguments_;
    const int slots_of_tile_;
    const int stages_;
    const CachePolicy policy_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    bool waited_ = false;
    RingPlace place_;
};

/// Brings the scales of tiles that another warp brings, whole.
template <TokenType Type>
class ScaleEngine {
  public:
    struct Place {};
    static constexpr bool keeps_much = false;

    __device__ __forceinline__ ScaleEngine(DocumentRing& ring, const TiledArguments& arguments, int, int, const Team&,
                                           std::uint32_t scales)
        : scales_(ring, arguments.call, scales, arguments.call.stages / slots_of_tile(arguments)) {}

    __device__ __forceinline__ static Place plain_place(const core::Segments&, int) { return {}; }
    __device__ __forceinline__ static Place place_of(const core::Segments&, std::int64_t, const core::Segment&) {
        return {};
    }
    __device__ __forceinline__ static Place place_from(const Place&, int) { return {}; }

    __device__ __forceinline__ void send(const Tile& tile, Place, int left, std::int64_t first_scale) {
        scales_.make_room();
        scales_.bring(first_scale, min(tile.flags.boxes() * box_tokens, left));
    }
    __device__ __forceinline__ void send_end(const Tile& end) {
        send(end, {}, 0, 0);
        scales_.end();
    }

  private:
    __device__ __forceinline__ static int slots_of_tile(const TiledArguments& arguments) {
        return static_cast<int>((arguments.call.params.dim + slot_dims_of(Type) - 1) / slot_dims_of(Type));
    }

    ScaleCopies scales_;
};

/// Takes every so-manieth unit of the block's share, or with Turns the next whenever there is room for more, so that no
/// ring has the long documents and the others wait for it. All lanes together look at masks.
template <TokenType Type, class Carrier, bool Turns = false>
class DocumentProducer {
  public:
    __device__ __forceinline__ DocumentProducer(DocumentRing& ring, const TiledArguments& arguments, int number,
                                                int rings, const Team& team, std::uint32_t scales, int* turns = nullptr)
        : arguments_(arguments),
          carrier_(ring, arguments, number, rings, team, scales),
          number_(number),
          rings_(rings),
          turns_(turns) {}

    __device__ __forceinline__ void run() {
        if (Turns && looks_at_memory()) wait_for_memory();
        const Share share = share_of(arguments_.call.params, arguments_.call.plan);
        if constexpr (Carrier::keeps_much) {
            send_one_by_one(share);
        } else if constexpr (Turns) {
            send_in_turn(share);
        } else {
            send_all(share);
        }
        Tile end{};
        end.flags.bits = TileFlags::stop_bit;
        carrier_.send_end(end);
    }

  private:
    static constexpr int tokens = tile_tokens_of(Type);

    struct Work {
        Unit unit;
        typename Carrier::Place place{};
        int begin = 0;
        int end = 0;
        std::int64_t mask_offset = 0;
    };

    __device__ __forceinline__ void send_one_by_one(const Share& share) {
        for (std::int64_t unit = share.begin + number_; unit < share.end; unit += rings_) {
            Work work;
            look_up(unit, work);
            send_unit(work);
        }
    }

    __device__ __forceinline__ void send_all(const Share& share) {
        const std::int64_t step = 32 * rings_;
        for (std::int64_t first = share.begin + number_; first < share.end; first += step) {
            // Each lane looks one unit up; then they go through them together.
            Work mine;
            const std::int64_t unit = first + lane_ * rings_;
            if (unit < share.end) look_up(unit, mine);
            const std::int64_t left = (share.end - first + rings_ - 1) / rings_;
            const int count = static_cast<int>(left < 32 ? left : 32);
            for (int i = 0; i < count; ++i) send_unit(work_of(mine, i));
        }
    }

    __device__ __forceinline__ void send_in_turn(const Share& share) {
        const auto count = static_cast<int>(share.end - share.begin);
        int window = -1;  // the first of the units that the lanes have looked up
        Work mine;
        for (int turn = number_; turn < count; turn = next_turn()) {
            Work work;
            if (arguments_.call.plan.plain_documents) {
                look_up_plain(share.begin + turn, work);
            } else {
                if (turn - turn % 32 != window) {
                    window = turn - turn % 32;
                    if (window + lane_ < count) look_up_by_lane(share.begin + window + lane_, mine);
                }
                work = work_of(mine, turn % 32);
            }
            send_unit(work);
        }
    }
    __device__ __forceinline__ int next_turn() const {
        int turn = 0;
        if (lane_ == 0) turn = atomicAdd(turns_, 1);
        return from_lane(turn, 0);
    }

    /// Before the first tile is sent.
    [[nodiscard]] __device__ __forceinline__ bool looks_at_memory() const {
        if constexpr (is_scaled(Type)) return true;
        return !arguments_.call.plan.plain_documents || arguments_.call.params.d.mask.data != nullptr;
    }

    __device__ __forceinline__ void look_up(std::int64_t number, Work& work) const {
        if (!arguments_.call.plan.plain_documents) {
            work = look_up_any(arguments_.call.params, arguments_.call.plan, number);
            return;
        }
        look_up_plain(number, work);
    }
    __device__ __forceinline__ void look_up_plain(std::int64_t number, Work& work) const {
        const core::Segments& d = arguments_.call.params.d;
        const auto item = static_cast<int>(number);
        work.unit = {0, item, 0};
        work.place = Carrier::plain_place(d, item);
        work.end = static_cast<int>(d.length);
        work.mask_offset = item * d.mask.stride_outer;
    }
    /// Of packed documents and one block of rows no more than their places is needed.
    __device__ __forceinline__ void look_up_by_lane(std::int64_t number, Work& work) const {
        const Arguments& call = arguments_.call;
        if (!call.plan.by_tokens || call.plan.blocks > 1) return look_up(number, work);
        const core::Segments& d = call.params.d;
        const core::Segment document =
            d.wide_starts ? packed_document(static_cast<const std::int64_t*>(d.starts) + number, d.total_rows)
                          : packed_document(static_cast<const std::int32_t*>(d.starts) + number, d.total_rows);
        work.unit = {0, static_cast<int>(number), 0};
        work.place = Carrier::place_of(d, number, document);
        work.end = static_cast<int>(document.length);
    }
    /// As Segments::at says it, both loads under way together.
    template <class Start>
    __device__ __forceinline__ static core::Segment packed_document(const Start* starts, std::int64_t rows) {
        const Start first = starts[0];
        const Start end = starts[1];
        core::Segment document;
        document.first_row = core::detail::clamp(first, 0, rows);
        const std::int64_t length = core::detail::clamp(end, 0, rows) - document.first_row;
        document.length = length < 0 ? 0 : length;
        return document;
    }

    __device__ __forceinline__ static Work look_up_any(const core::Params& params, const Plan& plan,
                                                       std::int64_t number) {
        if constexpr (Carrier::keeps_much) return look_up_here(params, plan, number);
        return look_up_there(params, plan, number);
    }
    // Out of line: see share_by_tokens.
    __device__ __noinline__ static Work look_up_there(const core::Params& params, const Plan& plan,
                                                      std::int64_t number) {
        return look_up_here(params, plan, number);
    }
    __device__ __forceinline__ static Work look_up_here(const core::Params& params, const Plan& plan,
                                                        std::int64_t number) {
        Work work;
        work.unit = unit_at(plan, number);
        const std::int64_t item = document_of(params, plan, work.unit);
        const core::Segment document = params.d.at(item);
        const TokenRange range = tokens_of_part(plan, work.unit.part, document.length, tokens);
        work.place = Carrier::place_of(params.d, item, document);
        work.begin = static_cast<int>(range.begin);
        work.end = static_cast<int>(range.end);
        work.mask_offset = document.mask_offset;
        return work;
    }

    __device__ __forceinline__ static Work work_of(const Work& mine, int lane) {
        Work work;
        work.unit = {from_lane(mine.unit.block, lane), from_lane(mine.unit.item, lane),
                     from_lane(mine.unit.part, lane)};
        work.place = Carrier::place_from(mine.place, lane);
        work.begin = from_lane(mine.begin, lane);
        work.end = from_lane(mine.end, lane);
        work.mask_offset = from_lane(mine.mask_offset, lane);
        return work;
    }

    __device__ __forceinline__ void send_unit(const Work& work) {
        int first = TileFlags::first_bit;
        bool opened = false;
        [[maybe_unused]] const std::int64_t first_scale = scale_of(work.unit);
        for (int base = work.begin;; base += tokens, first = 0) {
            Tile tile;
            tile.unit = work.unit;
            tile.base = base;
            if constexpr (is_scaled(Type)) tile.first_scale = first_scale;
            const int last = base + tokens >= work.end ? TileFlags::last_bit : 0;
            int boxes = 0;
#pragma unroll
            for (int b = 0; b < boxes_of_tile; ++b) {
                tile.keep[b] = b < tokens / box_tokens ? kept(work, base + b * box_tokens) : 0;
                if (tile.keep[b] != 0) boxes = b + 1;
            }
            tile.flags.bits = boxes | first | last | (kept_whole(tile, boxes) ? TileFlags::whole_bit : 0);
            if (opened && last == 0 && whole(tile)) tile.flags.bits = TileFlags::usual;
            opened = opened || boxes > 0;
            if (boxes != 0 || first != 0 || last != 0) {
                carrier_.send(tile, work.place, work.end - base, scale_at(first_scale, base));
            }
            if (last != 0) return;
        }
    }

    /// Where the scales of a unit's document begin.
    __device__ __forceinline__ std::int64_t scale_of(const Unit& unit) const {
        if constexpr (!is_scaled(Type)) return 0;
        const Arguments& call = arguments_.call;
        return call.plan.plain_documents ? unit.item * call.d_scales.steps.outer : scale_there(call, unit);
    }
    __device__ __noinline__ static std::int64_t scale_there(const Arguments& call, const Unit& unit) {
        return call.d_scales.steps.first(call.params.d, document_of(call.params, call.plan, unit));
    }
    __device__ __forceinline__ std::int64_t scale_at(std::int64_t first, int token) const {
        if constexpr (!is_scaled(Type)) return 0;
        return first + token * arguments_.call.d_scales.steps.token;
    }

    __device__ __forceinline__ static bool whole(const Tile& tile) {
        return (tile.keep[0] & tile.keep[1] & tile.keep[2] & tile.keep[3]) == all_lanes;
    }
    __device__ __forceinline__ static bool kept_whole(const Tile& tile, int boxes) {
        bool whole = true;
#pragma unroll
        for (int b = 0; b < boxes_of_tile; ++b) whole = whole && (b >= boxes || tile.keep[b] == all_lanes);
        return whole;
    }

    /// Which of the 32 tokens from `token` on are kept.
    __device__ __forceinline__ std::uint32_t kept(const Work& work, int token) const {
        const int left = work.end - token;
        if (left <= 0) return 0;
        const core::Segments& d = arguments_.call.params.d;
        if (d.mask.data == nullptr) return left >= 32 ? all_lanes : (1U << left) - 1U;
        if constexpr (Carrier::keeps_much) return kept_here(d, work.mask_offset, token, left);
        return kept_there(d, work.mask_offset, token, left);
    }
    __device__ __noinline__ static std::uint32_t kept_there(const core::Segments& d, std::int64_t offset, int token,
                                                            int left) {
        return kept_here(d, offset, token, left);
    }
    __device__ __forceinline__ static std::uint32_t kept_here(const core::Segments& d, std::int64_t offset, int token,
                                                              int left) {
        core::Segment document;
        document.mask_offset = offset;
        const auto lane = static_cast<int>(threadIdx.x % 32);
        return ballot(lane < left && d.keeps(document, token + lane));
    }

    const TiledArguments& arguments_;
    Carrier carrier_;
    const int number_;
    const int rings_;
    int* const turns_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
};

/// What the producing warps of ring `number` of `rings` do: more than one where they load. WholeTiles: a stage of the
/// ring has all slots of a tile. Turns: rings take units in turn, and `turns`, in shared memory, is how many are taken,
/// one by each ring from the start on; where memory is the limit.
template <TokenType Type = TokenType::f16, bool WholeTiles = false, int PiecesOfLane = 4, bool Scales = is_scaled(Type),
          bool Turns = false>
__device__ __forceinline__ void fill_ring(DocumentRing& ring, const TiledArguments& arguments, int number, int rings,
                                          const Team& team, std::uint32_t scales = 0, int* turns = nullptr) {
    if (arguments.call.d_by_loads) {
        using Loads = DocumentLoads<Type, WholeTiles, PiecesOfLane>;
        if constexpr (Turns) wait_for_memory();
        DocumentProducer<Type, Loads>(ring, arguments, number, rings, team, scales).run();
    } else {
        using Copies = CopyEngine<Type, WholeTiles, Scales, Turns>;
        DocumentProducer<Type, Copies, Turns>(ring, arguments, number, rings, team, scales, turns).run();
    }
}

/// What a warp does beside the one that fills the only ring through the copy engine: brings the tiles' scales.
template <TokenType Type>
__device__ __forceinline__ void fill_scales(DocumentRing& ring, const TiledArguments& arguments, std::uint32_t scales) {
    DocumentProducer<Type, ScaleEngine<Type>>(ring, arguments, 0, 1, {0, 1}, scales).run();
}

}  // namespace rowmax::cuda
