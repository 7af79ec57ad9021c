// Heat maps as PNG, through libpng.
#include <fmt/format.h>
#include <png.h>

#include <cstring>
#include <memory>

#include "cli/explain/heat_map.hpp"

namespace rowmax::cli::explain {

namespace {

constexpr std::int64_t most_pixels = std::int64_t{1} << 28;
constexpr Rgb frame{255, 255, 255};

// A frame one pixel wide needs a cell in which the colour still shows.
bool on_frame(std::int64_t x, std::int64_t y, std::int64_t cell) {
    return cell >= 4 && (x == 0 || y == 0 || x == cell - 1 || y == cell - 1);
}

std::vector<std::uint8_t> paint(const HeatMap& map, std::int64_t cell) {
    const Scale scale = scale_of(map);
    const std::int64_t width = map.columns * cell;
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width * map.rows * cell * 3));
    auto* out = pixels.data();
    for (std::int64_t y = 0; y < map.rows * cell; ++y) {
        for (std::int64_t x = 0; x < width; ++x) {
            const auto i = static_cast<std::size_t>(y / cell * map.columns + x / cell);
            const bool framed = !map.marked.empty() && map.marked[i] && on_frame(x % cell, y % cell, cell);
            const Rgb colour = framed ? frame : colour_of(scale.share(map.values[i]));
            *out++ = colour.r;
            *out++ = colour.g;
            *out++ = colour.b;
        }
    }
    return pixels;
}

}  // namespace

std::string png_of(const HeatMap& map, std::int64_t cell) {
    if (map.rows < 1 || map.columns < 1 || map.rows * cell > most_pixels / (map.columns * cell)) {
        throw Error(ErrorCode::data,
                    fmt::format("no picture of {} x {} cells of {} pixels: it must have 1 to {} pixels", map.rows,
                                map.columns, cell, most_pixels));
    }
    const std::vector<std::uint8_t> pixels = paint(map, cell);
    png_image image;
    std::memset(&image, 0, sizeof(image));
    image.version = PNG_IMAGE_VERSION;
    image.width = static_cast<png_uint_32>(map.columns * cell);
    image.height = static_cast<png_uint_32>(map.rows * cell);
    image.format = PNG_FORMAT_RGB;
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    std::string png(size, '\0');
    if (png_image_write_to_memory(&image, png.data(), &size, 0, pixels.data(), 0, nullptr) == 0) {
        throw Error(ErrorCode::internal, fmt::format("libpng: {}", image.message));
    }
    png.resize(size);
    return png;
}

}  // namespace rowmax::cli::explain
