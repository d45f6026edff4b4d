"""What training minimises; functions of tensors that know no model and no data set."""
