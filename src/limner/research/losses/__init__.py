"""Loss functions: functions of tensors, independent of models and data sets."""
