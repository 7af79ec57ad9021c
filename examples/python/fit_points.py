"""Fits a point cloud to another by descending their Chamfer distance, and draws it before and after.

    fit_points.py [--points N] [--steps N] [-o picture.png]

A sphere is pulled onto a torus knot: every step moves each point along the deterministic gradient of the distance. The
picture needs matplotlib; without -o only the distances are printed.
"""

import argparse
import math

import torch

import rowmax


def torus_knot(count: int) -> torch.Tensor:
    """Points of a tube round a (2, 3) torus knot, [count, 3]."""
    t, u, radius = 2 * math.pi * torch.rand(count), 2 * math.pi * torch.rand(count), 0.12 * torch.rand(count).sqrt()
    around = 2 + torch.cos(3 * t)
    knot = torch.stack((around * torch.cos(2 * t), around * torch.sin(2 * t), torch.sin(3 * t)), -1)
    return 0.4 * knot + radius[:, None] * torch.stack((torch.cos(u), torch.sin(u), torch.cos(t + u)), -1)


def sphere(count: int) -> torch.Tensor:
    return 1.3 * torch.nn.functional.normalize(torch.randn(count, 3), dim=-1)


def fit(points: torch.Tensor, target: torch.Tensor, steps: int) -> torch.Tensor:
    points = points.clone().requires_grad_()
    optimizer = torch.optim.Adam([points], lr=0.02)
    for step in range(steps + 1):
        loss = rowmax.chamfer(points, target)
        if step % max(steps // 5, 1) == 0:
            print(f"step {step:4}: distance {loss.item():.5f}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return points.detach()


def draw(path: str, clouds: dict[str, torch.Tensor], target: torch.Tensor) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(5 * (len(clouds) + 1), 5))
    nearest = {title: rowmax.nearest(points, target)[0][:, 0].sqrt() for title, points in clouds.items()}
    largest = max(float(distance.max()) for distance in nearest.values())
    for number, (title, points) in enumerate((clouds | {"target": target}).items(), 1):
        axes = figure.add_subplot(1, len(clouds) + 1, number, projection="3d")
        colours = {"c": nearest[title], "cmap": "plasma", "vmin": 0, "vmax": largest} if title in nearest else {"c": "0.4"}
        axes.scatter(*points.T, s=2, **colours)
        axes.set(title=title, xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), zlim=(-1.3, 1.3))
        axes.set_axis_off()
    figure.suptitle("colour: distance to the nearest point of the target")
    figure.savefig(path, dpi=100, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=4000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("-o", "--output", metavar="PNG")
    args = parser.parse_args()
    torch.manual_seed(0)
    before, target = sphere(args.points), torus_knot(args.points)
    after = fit(before, target, args.steps)
    if args.output:
        draw(args.output, {"before": before, "after": after}, target)


if __name__ == "__main__":
    main()
