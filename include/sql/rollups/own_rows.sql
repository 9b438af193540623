_slice IN (SELECT slice FROM {fence}) AND (_slice, _cluster) IN (SELECT slice, cluster FROM {fence})
