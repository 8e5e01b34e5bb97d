(* The theorems at Coq's own real numbers, with the exponential function and the logarithm of Coq's library.

   mathcomp-analysis (Rstruct) shows that they are an archimedean real closed field; here follows that
   its exp is the sum of its power series, which is what exponential.v asks for. Then each theorem of
   the registry of claims that speaks of a field is stated at R, and at exp and ln where it speaks of them.

   No claim rests on this file. It is the one that is not free of axioms: Coq's real numbers rest on
   classical logic: excluded middle, equality of functions with equal values, and choice. *)
From Coq Require Import Reals.
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import Rstruct.
Require Import exponential.
Require bits_of_a_tile boltzmann_and_hardmax boltzmann_and_hardmax_2 boltzmann_and_hardmax_3 cache
complexity_table contextual_mapping contextual_mapping_2 escaping_collapse escaping_collapse_2
five_theorems_one_matrix five_theorems_one_matrix_2 five_theorems_one_matrix_3 four_questions
four_questions_2 four_questions_3 four_questions_4 from_integers_to_softmax layers_or_steps
layers_or_steps_2 logarithmic_dimension logarithmic_dimension_2 logarithmic_dimension_3
logarithmic_dimension_4 logarithmic_dimension_5 memorization path_efficacy paths
paths_2 patterns_and_conditions_3 price_of_dimension price_of_dimension_2 price_of_dimension_3
price_of_dimension_4 price_of_dimension_5 random_projections_2 random_projections_3
random_projections_4 rank_collapse rank_collapse_2 spectra_and_linformer spectra_and_linformer_2
spectra_and_linformer_3 the_proof_executed the_proof_executed_3.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* The exponential function of Coq's library is the sum of its power series. *)
Lemma natE n : (n%:R)%R = INR n :> R.
Proof. by elim: n => // n IH; rewrite S_INR -IH -addn1 natrD. Qed.
Lemma powE x n : (x ^+ n)%R = pow x n :> R.
Proof. by elim: n => // n IH; rewrite exprS IH. Qed.
Lemma factE n : fact n = n`!.
Proof. by elim: n => // n IH; rewrite factS -IH. Qed.
Theorem exp_series : exponential (exp : R_rcfType -> R_rcfType).
Proof.
move=> x eps /RltP e0; rewrite /exp; case: exist_exp => l /= /(_ eps e0)[N lim].
exists N.+1 => -[//|n] Nn; apply/RltP.
suff -> : partial x n.+1 = sum_f_R0 (fun i => Rmult (Rinv (INR (fact i))) (pow x i)) n.
  exact: (lim n (elimT (@ssrnat.leP N n) Nn)).
have term k : (x ^+ k / k`!%:R)%R = Rmult (Rinv (INR (fact k))) (pow x k).
  rewrite powE natE -factE [RHS]Rmult_comm /GRing.inv /= /Rinvx ifT //.
  by apply/eqP; apply: INR_fact_neq_0.
elim: n {Nn} => [|n IH]; first by rewrite /partial big_ord_recl big_ord0 addr0 term.
by rewrite /partial big_ord_recr /= -/(partial x n.+1) IH term.
Qed.
Theorem ln_inverse : logarithm (exp : R_rcfType -> R_rcfType) ln.
Proof. by move=> y /RltP; apply: exp_ln. Qed.

(* A theorem at R; where exp is the next that it speaks of, at exp, and ln. *)
Ltac at_exp t := match constr:(tt) with
  | _ => constr:(t (exp : R -> R) (ln : R -> R) exp_series ln_inverse)
  | _ => constr:(t (exp : R -> R) exp_series)
  | _ => constr:(t) end.
Ltac at_reals t :=
  let s := match constr:(tt) with
    | _ => constr:(t R_realFieldType) | _ => constr:(t R_rcfType)
    | _ => constr:(t R_realArchiFieldType) | _ => constr:(t R_fieldType)
    | _ => constr:(t R_numFieldType) | _ => constr:(t R_comRingType) end in
  let r := at_exp s in exact r.

(* bits_of_a_tile.v *)
Definition bits_of_a_tile_lookup := ltac:(at_reals @bits_of_a_tile.lookup).
Definition bits_of_a_tile_lookup_all := ltac:(at_reals @bits_of_a_tile.lookup_all).
Definition bits_of_a_tile_reached := ltac:(at_reals @bits_of_a_tile.reached).
Definition bits_of_a_tile_tile := ltac:(at_reals @bits_of_a_tile.tile).
(* boltzmann_and_hardmax.v *)
Definition boltzmann_and_hardmax_before := ltac:(at_reals @boltzmann_and_hardmax.before).
Definition boltzmann_and_hardmax_before_skip :=
  ltac:(at_reals @boltzmann_and_hardmax.before_skip).
Definition boltzmann_and_hardmax_drop := ltac:(at_reals @boltzmann_and_hardmax.drop).
Definition boltzmann_and_hardmax_drop_attained :=
  ltac:(at_reals @boltzmann_and_hardmax.drop_attained).
Definition boltzmann_and_hardmax_drop_small := ltac:(at_reals @boltzmann_and_hardmax.drop_small).
Definition boltzmann_and_hardmax_hardmax := ltac:(at_reals @boltzmann_and_hardmax.hardmax).
Definition boltzmann_and_hardmax_log_sum_exp :=
  ltac:(at_reals @boltzmann_and_hardmax.log_sum_exp).
Definition boltzmann_and_hardmax_top_attained :=
  ltac:(at_reals @boltzmann_and_hardmax.top_attained).
(* boltzmann_and_hardmax_2.v *)
Definition boltzmann_and_hardmax_2_algebraic_temperatures :=
  ltac:(at_reals @boltzmann_and_hardmax_2.algebraic_temperatures).
Definition boltzmann_and_hardmax_2_one_size := ltac:(at_reals @boltzmann_and_hardmax_2.one_size).
Definition boltzmann_and_hardmax_2_repeated := ltac:(at_reals @boltzmann_and_hardmax_2.repeated).
Definition boltzmann_and_hardmax_2_scalar_ids :=
  ltac:(at_reals @boltzmann_and_hardmax_2.scalar_ids).
Definition boltzmann_and_hardmax_2_small_weight :=
  ltac:(at_reals @boltzmann_and_hardmax_2.small_weight).
(* boltzmann_and_hardmax_3.v *)
Definition boltzmann_and_hardmax_3_gap := ltac:(at_reals @boltzmann_and_hardmax_3.gap).
Definition boltzmann_and_hardmax_3_near_miss :=
  ltac:(at_reals @boltzmann_and_hardmax_3.near_miss).
(* cache.v *)
Definition cache_copying := fun n S V => @cache.copying n S V R_realFieldType.
Definition cache_copying_attained := ltac:(at_reals @cache.copying_attained).
Definition cache_copying_on_average :=
  fun n S V => @cache.copying_on_average n S V R_realFieldType.
Definition cache_must_hold := ltac:(at_reals @cache.must_hold).
Definition cache_no_larger := ltac:(at_reals @cache.no_larger).
Definition cache_state_with_coins := ltac:(at_reals @cache.state_with_coins).
(* complexity_table.v *)
Definition complexity_table_Hash_am_gm := ltac:(at_reals @complexity_table.Hash.am_gm).
Definition complexity_table_Hash_hash := ltac:(at_reals @complexity_table.Hash.hash).
Definition complexity_table_Hash_one_rotation :=
  ltac:(at_reals @complexity_table.Hash.one_rotation).
Definition complexity_table_Hash_signs_only := ltac:(at_reals @complexity_table.Hash.signs_only).
Definition complexity_table_Rounds_rounds_merge :=
  ltac:(at_reals @complexity_table.Rounds.rounds_merge).
Definition complexity_table_Rounds_uncorrected :=
  ltac:(at_reals @complexity_table.Rounds.uncorrected).
(* contextual_mapping.v *)
Definition contextual_mapping_hard_pairs := ltac:(at_reals @contextual_mapping.hard_pairs).
Definition contextual_mapping_means_equispaced :=
  ltac:(at_reals @contextual_mapping.means_equispaced).
Definition contextual_mapping_means_independent :=
  ltac:(at_reals @contextual_mapping.means_independent).
Definition contextual_mapping_soft_near :=
  fun K z beta beta0 => @contextual_mapping.soft_near R_realFieldType K z beta beta0 exp exp_series.
(* contextual_mapping_2.v *)
Definition contextual_mapping_2_context_at_0 :=
  ltac:(at_reals @contextual_mapping_2.context_at_0).
Definition contextual_mapping_2_encoded_apart :=
  ltac:(at_reals @contextual_mapping_2.encoded_apart).
Definition contextual_mapping_2_encoded_norms :=
  ltac:(at_reals @contextual_mapping_2.encoded_norms).
Definition contextual_mapping_2_encoded_sets :=
  ltac:(at_reals @contextual_mapping_2.encoded_sets).
Definition contextual_mapping_2_equivariant := ltac:(at_reals @contextual_mapping_2.equivariant).
Definition contextual_mapping_2_mean_pairs := ltac:(at_reals @contextual_mapping_2.mean_pairs).
(* escaping_collapse.v *)
Definition escaping_collapse_from_the_left := ltac:(at_reals @escaping_collapse.from_the_left).
Definition escaping_collapse_no_map := ltac:(at_reals @escaping_collapse.no_map).
Definition escaping_collapse_silent := ltac:(at_reals @escaping_collapse.silent).
Definition escaping_collapse_skip_lower := ltac:(at_reals @escaping_collapse.skip_lower).
Definition escaping_collapse_skip_upper := ltac:(at_reals @escaping_collapse.skip_upper).
(* escaping_collapse_2.v *)
Definition escaping_collapse_2_tokens := ltac:(at_reals @escaping_collapse_2.tokens).
Definition escaping_collapse_2_uniform_eigenvalues :=
  ltac:(at_reals @escaping_collapse_2.uniform_eigenvalues).
Definition escaping_collapse_2_uniform_power :=
  ltac:(at_reals @escaping_collapse_2.uniform_power).
(* five_theorems_one_matrix.v *)
Definition five_theorems_one_matrix_counting :=
  ltac:(at_reals @five_theorems_one_matrix.counting).
Definition five_theorems_one_matrix_exponential_laws :=
  ltac:(at_reals @five_theorems_one_matrix.exponential_laws).
Definition five_theorems_one_matrix_grid := ltac:(at_reals @five_theorems_one_matrix.grid).
Definition five_theorems_one_matrix_long_logits :=
  ltac:(at_reals @five_theorems_one_matrix.long_logits).
Definition five_theorems_one_matrix_long_logits_sharp :=
  ltac:(at_reals @five_theorems_one_matrix.long_logits_sharp).
Definition five_theorems_one_matrix_memory := ltac:(at_reals @five_theorems_one_matrix.memory).
(* five_theorems_one_matrix_2.v *)
Definition five_theorems_one_matrix_2_first_attained :=
  ltac:(at_reals @five_theorems_one_matrix_2.first_attained).
Definition five_theorems_one_matrix_2_no_larger_limit :=
  ltac:(at_reals @five_theorems_one_matrix_2.no_larger_limit).
Definition five_theorems_one_matrix_2_rank_first :=
  ltac:(at_reals @five_theorems_one_matrix_2.rank_first).
Definition five_theorems_one_matrix_2_rank_second :=
  ltac:(at_reals @five_theorems_one_matrix_2.rank_second).
Definition five_theorems_one_matrix_2_second_limit :=
  ltac:(at_reals @five_theorems_one_matrix_2.second_limit).
(* five_theorems_one_matrix_3.v *)
Definition five_theorems_one_matrix_3_bound_even :=
  ltac:(at_reals @five_theorems_one_matrix_3.bound_even).
Definition five_theorems_one_matrix_3_bound_tanh :=
  ltac:(at_reals @five_theorems_one_matrix_3.bound_tanh).
Definition five_theorems_one_matrix_3_contraction :=
  ltac:(at_reals @five_theorems_one_matrix_3.contraction).
Definition five_theorems_one_matrix_3_contraction_attained :=
  ltac:(at_reals @five_theorems_one_matrix_3.contraction_attained).
Definition five_theorems_one_matrix_3_radius_attained :=
  ltac:(at_reals @five_theorems_one_matrix_3.radius_attained).
Definition five_theorems_one_matrix_3_radius_bound :=
  ltac:(at_reals @five_theorems_one_matrix_3.radius_bound).
(* four_questions.v *)
Definition four_questions_follow_reordering := ltac:(at_reals @four_questions.follow_reordering).
Definition four_questions_from_the_left := ltac:(at_reals @four_questions.from_the_left).
Definition four_questions_not_from_the_right :=
  ltac:(at_reals @four_questions.not_from_the_right).
Definition four_questions_not_from_the_right_exp :=
  fun s => @four_questions.not_from_the_right_exp R_realFieldType exp s exp_series.
Definition four_questions_one_or_two := ltac:(at_reals @four_questions.one_or_two).
Definition four_questions_right_side_constant :=
  ltac:(at_reals @four_questions.right_side_constant).
Definition four_questions_right_side_to_zero :=
  ltac:(at_reals @four_questions.right_side_to_zero).
Definition four_questions_right_side_unbounded :=
  ltac:(at_reals @four_questions.right_side_unbounded).
(* four_questions_2.v *)
Definition four_questions_2_both_happen := ltac:(at_reals @four_questions_2.both_happen).
Definition four_questions_2_decide_exp := ltac:(at_reals @four_questions_2.decide_exp).
Definition four_questions_2_full_rank_collapses :=
  fun m => @four_questions_2.full_rank_collapses R_realFieldType exp m exp_series.
Definition four_questions_2_product_kept := ltac:(at_reals @four_questions_2.product_kept).
Definition four_questions_2_rank_one := ltac:(at_reals @four_questions_2.rank_one).
Definition four_questions_2_rank_two_keeps := ltac:(at_reals @four_questions_2.rank_two_keeps).
Definition four_questions_2_rank_two_keeps_exp :=
  ltac:(at_reals @four_questions_2.rank_two_keeps_exp).
Definition four_questions_2_scale := ltac:(at_reals @four_questions_2.scale).
Definition four_questions_2_scale_exp := ltac:(at_reals @four_questions_2.scale_exp).
Definition four_questions_2_size_does_not_decide :=
  ltac:(at_reals @four_questions_2.size_does_not_decide).
Definition four_questions_2_tokens_shrunk := fun m => @four_questions_2.tokens_shrunk R_realFieldType exp m exp_series.
(* four_questions_3.v *)
Definition four_questions_3_K_gt1 := ltac:(at_reals @four_questions_3.K_gt1).
Definition four_questions_3_attained := ltac:(at_reals @four_questions_3.attained).
Definition four_questions_3_least := ltac:(at_reals @four_questions_3.least).
Definition four_questions_3_triangle := ltac:(at_reals @four_questions_3.triangle).
(* four_questions_4.v *)
Definition four_questions_4_composite_bounds :=
  ltac:(at_reals @four_questions_4.composite_bounds).
Definition four_questions_4_spectral := ltac:(at_reals @four_questions_4.spectral).
Definition four_questions_4_submultiplicative :=
  ltac:(at_reals @four_questions_4.submultiplicative).
Definition four_questions_4_zero_only := ltac:(at_reals @four_questions_4.zero_only).
(* from_integers_to_softmax.v *)
Definition from_integers_to_softmax_leak :=
  fun S0 => @from_integers_to_softmax.leak S0 R_realFieldType.
Definition from_integers_to_softmax_leak_exp :=
  fun n score group lambda zeta => @from_integers_to_softmax.leak_exp R_realFieldType exp n score group lambda zeta exp_series.
Definition from_integers_to_softmax_order := ltac:(at_reals @from_integers_to_softmax.order).
Definition from_integers_to_softmax_ramps := ltac:(at_reals @from_integers_to_softmax.ramps).
(* layers_or_steps.v *)
Definition layers_or_steps_third_hop := ltac:(at_reals @layers_or_steps.third_hop).
(* layers_or_steps_2.v *)
Definition layers_or_steps_2_back := ltac:(at_reals @layers_or_steps_2.back).
Definition layers_or_steps_2_hops := ltac:(at_reals @layers_or_steps_2.hops).
Definition layers_or_steps_2_powers := ltac:(at_reals @layers_or_steps_2.powers).
Definition layers_or_steps_2_steps := ltac:(at_reals @layers_or_steps_2.steps).
(* logarithmic_dimension.v *)
Definition logarithmic_dimension_Criteria_masks :=
  ltac:(at_reals @logarithmic_dimension.Criteria.masks).
Definition logarithmic_dimension_Criteria_rows :=
  ltac:(at_reals @logarithmic_dimension.Criteria.rows).
Definition logarithmic_dimension_FullRank_full_rank :=
  ltac:(at_reals @logarithmic_dimension.FullRank.full_rank).
Definition logarithmic_dimension_FullRank_rounding :=
  ltac:(at_reals @logarithmic_dimension.FullRank.rounding).
Definition logarithmic_dimension_Layout_layout :=
  ltac:(at_reals @logarithmic_dimension.Layout.layout).
(* logarithmic_dimension_2.v *)
Definition logarithmic_dimension_2_Noise_mean_logits :=
  ltac:(at_reals @logarithmic_dimension_2.Noise.mean_logits).
Definition logarithmic_dimension_2_Noise_noise :=
  ltac:(at_reals @logarithmic_dimension_2.Noise.noise).
Definition logarithmic_dimension_2_Tiles_gap_by_tiles :=
  ltac:(at_reals @logarithmic_dimension_2.Tiles.gap_by_tiles).
Definition logarithmic_dimension_2_Tiles_odds_by_tiles :=
  ltac:(at_reals @logarithmic_dimension_2.Tiles.odds_by_tiles).
(* logarithmic_dimension_3.v *)
Definition logarithmic_dimension_3_enough_rows :=
  ltac:(at_reals @logarithmic_dimension_3.enough_rows).
Definition logarithmic_dimension_3_johnson_lindenstrauss :=
  ltac:(at_reals @logarithmic_dimension_3.johnson_lindenstrauss).
Definition logarithmic_dimension_3_lengths := ltac:(at_reals @logarithmic_dimension_3.lengths).
(* logarithmic_dimension_4.v *)
Definition logarithmic_dimension_4_plain := ltac:(at_reals @logarithmic_dimension_4.plain).
(* logarithmic_dimension_5.v *)
Definition logarithmic_dimension_5_interpolated :=
  ltac:(at_reals @logarithmic_dimension_5.interpolated).
(* memorization.v *)
Definition memorization_exact_labels := ltac:(at_reals @memorization.exact_labels).
Definition memorization_knots_bound := ltac:(at_reals @memorization.knots_bound).
Definition memorization_knots_error := ltac:(at_reals @memorization.knots_error).
Definition memorization_knots_recursion := ltac:(at_reals @memorization.knots_recursion).
Definition memorization_knots_sharp := ltac:(at_reals @memorization.knots_sharp).
Definition memorization_knots_unbounded := ltac:(at_reals @memorization.knots_unbounded).
Definition memorization_one_block := ltac:(at_reals @memorization.one_block).
Definition memorization_width := ltac:(at_reals @memorization.width).
Definition memorization_zig_fits := ltac:(at_reals @memorization.zig_fits).
Definition memorization_zigzag_closed := ltac:(at_reals @memorization.zigzag_closed).
Definition memorization_zigzag_half := ltac:(at_reals @memorization.zigzag_half).
(* path_efficacy.v *)
Definition path_efficacy_all_right := ltac:(at_reals @path_efficacy.all_right).
Definition path_efficacy_all_wrong := ltac:(at_reals @path_efficacy.all_wrong).
Definition path_efficacy_every_length_wrong := ltac:(at_reals @path_efficacy.every_length_wrong).
Definition path_efficacy_first_order := ltac:(at_reals @path_efficacy.first_order).
Definition path_efficacy_frozen_powers := ltac:(at_reals @path_efficacy.frozen_powers).
Definition path_efficacy_logits_add := ltac:(at_reals @path_efficacy.logits_add).
Definition path_efficacy_share := fun H => @path_efficacy.share H R_numFieldType.
Definition path_efficacy_skip_share := fun H => @path_efficacy.skip_share H R_realFieldType.
(* paths.v *)
Definition paths_decomposition := ltac:(at_reals @paths.decomposition).
Definition paths_no_biases := ltac:(at_reals @paths.no_biases).
Definition paths_order := ltac:(at_reals @paths.order).
Definition paths_row_sums := ltac:(at_reals @paths.row_sums).
Definition paths_skip := ltac:(at_reals @paths.skip).
Definition paths_square_rows := ltac:(at_reals @paths.square_rows).
Definition paths_under_top_rows := ltac:(at_reals @paths.under_top_rows).
Definition paths_under_top_shift := ltac:(at_reals @paths.under_top_shift).
(* paths_2.v *)
Definition paths_2_binomial := fun H => @paths_2.binomial H R_numFieldType.
Definition paths_2_cost_met := ltac:(at_reals @paths_2.cost_met).
Definition paths_2_lengths_add_up := ltac:(at_reals @paths_2.lengths_add_up).
Definition paths_2_lengths_add_up_without_skips :=
  ltac:(at_reals @paths_2.lengths_add_up_without_skips).
Definition paths_2_random_signs := ltac:(at_reals @paths_2.random_signs).
Definition paths_2_sums := ltac:(at_reals @paths_2.sums).
Definition paths_2_sums_without_skips := ltac:(at_reals @paths_2.sums_without_skips).
(* patterns_and_conditions_3.v *)
Definition patterns_and_conditions_3_merge :=
  fun S => @patterns_and_conditions_3.merge S R_fieldType.
Definition patterns_and_conditions_3_merge_exp :=
  fun V n m a v part => @patterns_and_conditions_3.merge_exp R_realFieldType exp ln V n m a v part exp_series ln_inverse.
(* price_of_dimension.v *)
Definition price_of_dimension_Law_law := ltac:(at_reals @price_of_dimension.Law.law).
Definition price_of_dimension_Law_least := ltac:(at_reals @price_of_dimension.Law.least).
Definition price_of_dimension_Line_line := ltac:(at_reals @price_of_dimension.Line.line).
(* price_of_dimension_2.v *)
Definition price_of_dimension_2_Keys_moment := ltac:(at_reals @price_of_dimension_2.Keys.moment).
Definition price_of_dimension_2_Rank_nearest :=
  ltac:(at_reals @price_of_dimension_2.Rank.nearest).
Definition price_of_dimension_2_Rank_rank_n := ltac:(at_reals @price_of_dimension_2.Rank.rank_n).
Definition price_of_dimension_2_Rank_sigma_min :=
  ltac:(at_reals @price_of_dimension_2.Rank.sigma_min).
(* price_of_dimension_3.v *)
Definition price_of_dimension_3_Converse_radon_keys :=
  ltac:(at_reals @price_of_dimension_3.Converse.radon_keys).
Definition price_of_dimension_3_Converse_radon_pattern :=
  ltac:(at_reals @price_of_dimension_3.Converse.radon_pattern).
Definition price_of_dimension_3_MoreBits_bits_gap :=
  ltac:(at_reals @price_of_dimension_3.MoreBits.bits_gap).
Definition price_of_dimension_3_MoreBits_bits_patterns :=
  ltac:(at_reals @price_of_dimension_3.MoreBits.bits_patterns).
Definition price_of_dimension_3_MoreBits_bits_tokens :=
  ltac:(at_reals @price_of_dimension_3.MoreBits.bits_tokens).
Definition price_of_dimension_3_MoreBits_relative :=
  ltac:(at_reals @price_of_dimension_3.MoreBits.relative).
(* price_of_dimension_4.v *)
Definition price_of_dimension_4_one_more := ltac:(at_reals @price_of_dimension_4.one_more).
Definition price_of_dimension_4_sign_rank := ltac:(at_reals @price_of_dimension_4.sign_rank).
(* price_of_dimension_5.v *)
Definition price_of_dimension_5_counting_signs :=
  ltac:(at_reals @price_of_dimension_5.counting_signs).
Definition price_of_dimension_5_large_n := ltac:(at_reals @price_of_dimension_5.large_n).
(* random_projections_2.v *)
Definition random_projections_2_CountSketch_collision_cost :=
  ltac:(at_reals @random_projections_2.CountSketch.collision_cost).
Definition random_projections_2_CountSketch_countsketch :=
  ltac:(at_reals @random_projections_2.CountSketch.countsketch).
Definition random_projections_2_Existence_existence_columns :=
  ltac:(at_reals @random_projections_2.Existence.existence_columns).
Definition random_projections_2_Existence_existence_one :=
  ltac:(at_reals @random_projections_2.Existence.existence_one).
Definition random_projections_2_Existence_existence_rank :=
  ltac:(at_reals @random_projections_2.Existence.existence_rank).
Definition random_projections_2_Normaliser_no_right :=
  ltac:(at_reals @random_projections_2.Normaliser.no_right).
Definition random_projections_2_Normaliser_normaliser :=
  ltac:(at_reals @random_projections_2.Normaliser.normaliser).
(* random_projections_3.v *)
Definition random_projections_3_Finite_ach_mean_square :=
  ltac:(at_reals @random_projections_3.Finite.ach_mean_square).
Definition random_projections_3_Finite_ach_moments :=
  ltac:(at_reals @random_projections_3.Finite.ach_moments).
Definition random_projections_3_Finite_sign_mean_square :=
  ltac:(at_reals @random_projections_3.Finite.sign_mean_square).
Definition random_projections_3_Finite_sign_moments :=
  ltac:(at_reals @random_projections_3.Finite.sign_moments).
Definition random_projections_3_Kappa3_kappa3_mean_square :=
  ltac:(at_reals @random_projections_3.Kappa3.kappa3_mean_square).
Definition random_projections_3_Kappa3_kappa3_worse_than_zero :=
  ltac:(at_reals @random_projections_3.Kappa3.kappa3_worse_than_zero).
Definition random_projections_3_Kappa3_fourth_moment :=
  ltac:(at_reals @random_projections_3.Kappa3.fourth_moment).
Definition random_projections_3_Kappa3_law :=
  ltac:(at_reals @random_projections_3.Kappa3.law).
(* random_projections_4.v *)
Definition random_projections_4_achlioptas_identity :=
  ltac:(at_reals @random_projections_4.achlioptas_identity).
Definition random_projections_4_kappa3_identity :=
  ltac:(at_reals @random_projections_4.kappa3_identity).
Definition random_projections_4_rademacher_identity :=
  ltac:(at_reals @random_projections_4.rademacher_identity).
Definition random_projections_4_sparse_identity :=
  ltac:(at_reals @random_projections_4.sparse_identity).
Definition random_projections_4_srht_identity :=
  ltac:(at_reals @random_projections_4.srht_identity).
(* rank_collapse.v *)
Definition rank_collapse_frozen_linear := ltac:(at_reals @rank_collapse.frozen_linear).
Definition rank_collapse_frozen_lower := ltac:(at_reals @rank_collapse.frozen_lower).
Definition rank_collapse_frozen_residual := ltac:(at_reals @rank_collapse.frozen_residual).
Definition rank_collapse_recursion := ltac:(at_reals @rank_collapse.recursion).
Definition rank_collapse_recursion_exp :=
  fun n s v => @rank_collapse.recursion_exp R_realFieldType exp ln n s v exp_series ln_inverse.
Definition rank_collapse_subtract_rows := ltac:(at_reals @rank_collapse.subtract_rows).
(* rank_collapse_2.v *)
Definition rank_collapse_2_layer_contracts :=
  fun n => @rank_collapse_2.layer_contracts R_realFieldType exp n exp_series.
Definition rank_collapse_2_cubic :=
  fun n => @rank_collapse_2.cubic R_realFieldType exp n exp_series.
Definition rank_collapse_2_collapse :=
  fun n => @rank_collapse_2.collapse R_realFieldType exp n exp_series.
Definition rank_collapse_2_cube :=
  fun n => @rank_collapse_2.cube R_realFieldType exp n exp_series.
Definition rank_collapse_2_column :=
  fun n => @rank_collapse_2.column R_realFieldType exp n exp_series.
Definition rank_collapse_2_entrywise :=
  fun n => @rank_collapse_2.entrywise R_realFieldType exp n exp_series.
Definition rank_collapse_2_half_sum :=
  fun n => @rank_collapse_2.half_sum R_realFieldType exp n exp_series.
Definition rank_collapse_2_two_tokens :=
  fun delta omega v => @rank_collapse_2.two_tokens R_realFieldType exp delta omega v exp_series.
(* spectra_and_linformer.v *)
Definition spectra_and_linformer_Entropy_entropy :=
  ltac:(at_reals @spectra_and_linformer.Entropy.entropy).
Definition spectra_and_linformer_Entropy_entropy_sharp :=
  ltac:(at_reals @spectra_and_linformer.Entropy.entropy_sharp).
Definition spectra_and_linformer_NoCausalForm_all_rows :=
  ltac:(at_reals @spectra_and_linformer.NoCausalForm.all_rows).
Definition spectra_and_linformer_NoCausalForm_causal :=
  ltac:(at_reals @spectra_and_linformer.NoCausalForm.causal).
Definition spectra_and_linformer_Pairs_any_pairs :=
  ltac:(at_reals @spectra_and_linformer.Pairs.any_pairs).
Definition spectra_and_linformer_Partial_causal_invertible :=
  ltac:(at_reals @spectra_and_linformer.Partial.causal_invertible).
Definition spectra_and_linformer_Partial_kernel :=
  ltac:(at_reals @spectra_and_linformer.Partial.kernel).
Definition spectra_and_linformer_Vacuous_diffuse :=
  ltac:(at_reals @spectra_and_linformer.Vacuous.diffuse).
Definition spectra_and_linformer_Vacuous_zero_meets :=
  ltac:(at_reals @spectra_and_linformer.Vacuous.zero_meets).
(* spectra_and_linformer_2.v *)
Definition spectra_and_linformer_2_best_2norm :=
  ltac:(at_reals @spectra_and_linformer_2.best_2norm).
Definition spectra_and_linformer_2_best_frobenius :=
  ltac:(at_reals @spectra_and_linformer_2.best_frobenius).
Definition spectra_and_linformer_2_truncated_2norm :=
  ltac:(at_reals @spectra_and_linformer_2.truncated_2norm).
Definition spectra_and_linformer_2_truncated_frobenius :=
  ltac:(at_reals @spectra_and_linformer_2.truncated_frobenius).
Definition spectra_and_linformer_2_truncated_rank :=
  ltac:(at_reals @spectra_and_linformer_2.truncated_rank).
(* spectra_and_linformer_3.v *)
Definition spectra_and_linformer_3_best_chances :=
  ltac:(at_reals @spectra_and_linformer_3.best_chances).
Definition spectra_and_linformer_3_best_error :=
  ltac:(at_reals @spectra_and_linformer_3.best_error).
Definition spectra_and_linformer_3_best_is_best :=
  ltac:(at_reals @spectra_and_linformer_3.best_is_best).
Definition spectra_and_linformer_3_drawn_below_kappa3 :=
  ltac:(at_reals @spectra_and_linformer_3.drawn_below_kappa3).
Definition spectra_and_linformer_3_drawn_error :=
  ltac:(at_reals @spectra_and_linformer_3.drawn_error).
Definition spectra_and_linformer_3_drawn_mean :=
  ltac:(at_reals @spectra_and_linformer_3.drawn_mean).
Definition spectra_and_linformer_3_kappa3_product :=
  ltac:(at_reals @spectra_and_linformer_3.kappa3_product).
(* the_proof_executed.v *)
Definition the_proof_executed_head_contextE := ltac:(at_reals @the_proof_executed.head_contextE).
Definition the_proof_executed_head_sweepE := ltac:(at_reals @the_proof_executed.head_sweepE).
Definition the_proof_executed_quantise := ltac:(at_reals @the_proof_executed.quantise).
Definition the_proof_executed_selective := ltac:(at_reals @the_proof_executed.selective).
Definition the_proof_executed_values := ltac:(at_reals @the_proof_executed.values).
(* the_proof_executed_3.v *)
Definition the_proof_executed_3_universality :=
  ltac:(at_reals @the_proof_executed_3.universality).
