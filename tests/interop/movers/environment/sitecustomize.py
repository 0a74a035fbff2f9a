"""Declare the operators of torchvision, whose only wheels need CUDA: without them its import fails."""

from typing import Any

import torch

make_library: Any = torch.library.Library
library = make_library("torchvision", "DEF")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
