#include "core/topk.hpp"

#include <algorithm>
#include <cmath>

namespace rowmax::core {

bool ranks_before(const Hit& a, const Hit& b) {
    const bool a_nan = std::isnan(a.score);
    const bool b_nan = std::isnan(b.score);
    if (a_nan != b_nan) return a_nan;
    if (!a_nan && a.score != b.score) return a.score > b.score;
    return a.document < b.document;
}

TopK::TopK(std::int64_t queries, std::int64_t k) : k_(k), heaps_(static_cast<std::size_t>(queries)) {}

void TopK::push(std::int64_t query, double score, std::int64_t document) {
    std::vector<Hit>& heap = heaps_[static_cast<std::size_t>(query)];
    const Hit hit{score, document};
    if (static_cast<std::int64_t>(heap.size()) < k_) {
        heap.push_back(hit);
        std::push_heap(heap.begin(), heap.end(), ranks_before);
        return;
    }
    if (!ranks_before(hit, heap.front())) return;
    std::pop_heap(heap.begin(), heap.end(), ranks_before);
    heap.back() = hit;
    std::push_heap(heap.begin(), heap.end(), ranks_before);
}

std::vector<Hit> TopK::ranked(std::int64_t query) const {
    std::vector<Hit> hits = heaps_[static_cast<std::size_t>(query)];
    std::sort(hits.begin(), hits.end(), ranks_before);
    return hits;
}

}  // namespace rowmax::core
