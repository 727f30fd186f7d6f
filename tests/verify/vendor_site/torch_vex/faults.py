"""All planted faults, in two halves: products and what is spatial; rows, elements and moves."""

from torch_vex import faults_products, faults_rows

FAULTS = (*faults_products.FAULTS, *faults_rows.FAULTS)
