#include "core/points_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/element.hpp"

namespace rowmax::core::reference {

namespace {

struct Hit {
    double distance = std::numeric_limits<double>::infinity();
    std::int64_t index = -1;
};

// NaN first, then the smaller distance, then the lower index.
bool nearer(const Hit& a, const Hit& b) {
    if (std::isnan(a.distance) != std::isnan(b.distance)) return std::isnan(a.distance);
    if (!std::isnan(a.distance) && a.distance != b.distance) return a.distance < b.distance;
    return a.index < b.index;
}

std::vector<double> point(const PointParams& params, const Segments& side, const Segment& item, std::int64_t t) {
    const auto size = static_cast<std::int64_t>(size_of(params.dtype));
    std::vector<double> row;
    for (std::int64_t k = 0; k < params.dim; ++k)
        row.push_back(read_element(item.data + t * side.row_stride + k * size, params.dtype));
    return row;
}

double distance(Metric metric, const std::vector<double>& a, const std::vector<double>& b) {
    long double sum = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
        const long double d = static_cast<long double>(a[k]) - b[k];
        sum += metric == Metric::l2_sq ? d * d : std::fabs(d);
    }
    return static_cast<double>(sum);
}

std::vector<Hit> hits(const PointParams& params, const Segments& to, const Segment& item,
                      const std::vector<double>& from) {
    std::vector<Hit> all;
    for (std::int64_t t = 0; t < item.length; ++t) {
        if (to.keeps(item, t)) all.push_back({distance(params.metric, from, point(params, to, item, t)), t});
    }
    std::sort(all.begin(), all.end(), nearer);
    return all;
}

double total(const Segments& side, std::int64_t item, const Nearest& found, bool mean) {
    const Segment segment = side.at(item);
    double sum = 0;
    double kept = 0;
    for (std::int64_t s = 0; s < segment.length; ++s) {
        if (!side.keeps(segment, s)) continue;
        const auto at = static_cast<std::size_t>(segment.first_row + s);
        kept += 1;
        sum += found.index[at] < 0 ? 0 : found.distance[at];
    }
    return mean && kept > 0 ? sum / kept : sum;
}

double slope(Metric metric, double difference) {
    if (metric == Metric::l2_sq) return 2 * difference;
    return difference > 0 ? 1 : (difference < 0 ? -1 : difference);
}

}  // namespace

Nearest nearest(const PointParams& params, std::int64_t k, bool reversed) {
    const Segments& from = reversed ? params.r : params.p;
    const Segments& to = reversed ? params.p : params.r;
    const auto rows = static_cast<std::size_t>(from.total_rows * k);
    Nearest out{std::vector<double>(rows, std::numeric_limits<double>::infinity()),
                std::vector<std::int64_t>(rows, -1)};
    for (std::int64_t i = 0; i < from.count; ++i) {
        const Segment sources = from.at(i);
        for (std::int64_t s = 0; s < sources.length; ++s) {
            if (!from.keeps(sources, s)) continue;
            const std::vector<Hit> all = hits(params, to, to.at(i), point(params, from, sources, s));
            for (std::size_t j = 0; j < std::min(static_cast<std::size_t>(k), all.size()); ++j) {
                const std::size_t at = static_cast<std::size_t>((sources.first_row + s) * k) + j;
                out.distance[at] = all[j].distance;
                out.index[at] = all[j].index;
            }
        }
    }
    return out;
}

Chamfer chamfer(const PointParams& params, bool mean, bool one_sided) {
    Chamfer out;
    out.p = nearest(params, 1);
    if (!one_sided) out.r = nearest(params, 1, true);
    for (std::int64_t i = 0; i < params.p.count; ++i) {
        out.value.push_back(total(params.p, i, out.p, mean) + (one_sided ? 0 : total(params.r, i, out.r, mean)));
    }
    return out;
}

void add_nearest_gradient(const PointParams& params, std::int64_t k, bool reversed,
                          const std::vector<std::int64_t>& index, const std::vector<double>& grad_distance,
                          PointGradient& gradient) {
    const Segments& from = reversed ? params.r : params.p;
    const Segments& to = reversed ? params.p : params.r;
    std::vector<double>& grad_from = reversed ? gradient.r : gradient.p;
    std::vector<double>& grad_to = reversed ? gradient.p : gradient.r;
    for (std::int64_t i = 0; i < from.count; ++i) {
        const Segment sources = from.at(i);
        const Segment targets = to.at(i);
        for (std::int64_t n = 0; n < sources.length * k; ++n) {
            const std::int64_t row = sources.first_row + n / k;
            const auto at = static_cast<std::size_t>(row * k + n % k);
            if (index[at] < 0) continue;
            const std::vector<double> a = point(params, from, sources, n / k);
            const std::vector<double> b = point(params, to, targets, index[at]);
            for (std::int64_t c = 0; c < params.dim; ++c) {
                const auto j = static_cast<std::size_t>(c);
                const double g = grad_distance[at] * slope(params.metric, a[j] - b[j]);
                grad_from[static_cast<std::size_t>(row * params.dim) + j] += g;
                grad_to[static_cast<std::size_t>((targets.first_row + index[at]) * params.dim) + j] -= g;
            }
        }
    }
}

}  // namespace rowmax::core::reference
