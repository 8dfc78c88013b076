"""DGL's convolutions with gates on their edges."""

from .denoised import Denoised
from .wrap import denoise

__all__ = ["Denoised", "denoise"]
