"""Audio and video: clips and frames of encoded media."""
