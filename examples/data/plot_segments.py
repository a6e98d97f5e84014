"""
Regions of a photograph
=======================

Pixels are rows, and the boundary between two regions is the widest margin between their colours. A
third region comes from splitting one of two. K-means on the same pixels stands beside it.
"""

# %%
# A photograph that comes with scikit-learn.
from sklearn.datasets import load_sample_image

from maxmargin import segment_image
from maxmargin.segmentation import kmeans_segments

photo = load_sample_image("china.jpg")
ours, theirs = segment_image(photo, 3), kmeans_segments(photo, 3)

# %%
# Every segment in its mean colour.
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(9, 2.4), layout="constrained")
for axis, picture, title in zip(
    axes, (photo, ours.flat(), theirs.flat()), ("photograph", "maxmargin", "k-means")
):
    axis.imshow(picture)
    axis.set(title=title, xticks=[], yticks=[])
