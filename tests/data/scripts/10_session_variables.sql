DECLARE VARIABLE least INT DEFAULT 2;
DECLARE VARIABLE town STRING DEFAULT 'Graz';
SELECT count(*), sum(s.qty) FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE s.qty >= least AND t.city = town;
SET VARIABLE least = 4;
SELECT least, town;
SELECT count(*), sum(s.qty) FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE s.qty >= least AND t.city = town;
DROP TEMPORARY VARIABLE least;
DROP TEMPORARY VARIABLE town;
