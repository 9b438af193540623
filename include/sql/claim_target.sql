INSERT INTO sluice.targets (target, pipeline, lake)
SELECT {target:String}, {pipeline:String}, {lake:String}
