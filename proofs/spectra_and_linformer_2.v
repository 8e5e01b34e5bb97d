(* Page 7: Low rank: spectra of attention, and Linformer (Theorem 7.3) *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Best.
Variable F : realFieldType.
(* The sum of the first k terms. *)
Definition truncated m n r k (U : 'M[F]_(m, r)) (s : 'I_r -> F) (V : 'M[F]_(n, r)) :=
  U *m (pid_mx k *m diag_mx (\row_i s i)) *m V^T.

(* Orthonormal columns keep lengths. *)
Lemma keeps m r d (U : 'M[F]_(m, r)) (M : 'M[F]_(r, d)) : U^T *m U = 1%:M ->
  sqnorm (U *m M) = sqnorm M.
Proof.
move=> UU; rewrite -sq_trmx sqnorm_tr trmxK trmx_mul -mulmxA [U^T *m (U *m M)]mulmxA UU mul1mx.
by rewrite -[RHS]sq_trmx sqnorm_tr trmxK.
Qed.
Lemma diag_keeps r (t : 'I_r -> F) : sqnorm (diag_mx (\row_i t i)) = \sum_i t i ^+ 2.
Proof.
by rewrite sqnorm_tr tr_diag_mx mulmx_diag mxtrace_diag; apply: eq_bigr => i _; rewrite !mxE expr2.
Qed.
(* A projector Q (symmetric, Q Q = Q) splits squared lengths. *)
Definition projector n (Q : 'M[F]_n) := Q^T = Q /\ Q *m Q = Q.
Lemma projector_compl n (Q : 'M[F]_n) : projector Q -> projector (1%:M - Q).
Proof.
case=> QT QQ; split; first by rewrite linearB /= trmx1 QT.
by rewrite mulmxBr !mulmxBl !mul1mx mulmx1 QQ subrr subr0.
Qed.
Lemma pythagoras m n (M : 'M[F]_(m, n)) Q : projector Q ->
  sqnorm M = sqnorm (M *m Q) + sqnorm (M *m (1%:M - Q)).
Proof.
have E A : projector A -> sqnorm (M *m A) = \tr (M *m A *m M^T).
  by case=> AT AA; rewrite sqnorm_tr trmx_mul AT mulmxA -[M *m A *m A]mulmxA AA.
move=> pQ; rewrite (E _ pQ) (E _ (projector_compl pQ)) -linearD -mulmxDl -mulmxDr /=.
by rewrite [Q + _]addrC subrK mulmx1 sqnorm_tr.
Qed.
Lemma shorter m n (M : 'M[F]_(m, n)) Q : projector Q -> sqnorm (M *m Q) <= sqnorm M.
Proof. by move=> pQ; rewrite (pythagoras M pQ) ler_addl sq_ge0. Qed.
Lemma columns_projector n r (V : 'M[F]_(n, r)) : V^T *m V = 1%:M -> projector (V *m V^T).
Proof.
move=> VV; split; first by rewrite trmx_mul trmxK.
by rewrite mulmxA -[V *m V^T *m V]mulmxA VV mulmx1.
Qed.
Lemma bessel n r d (V : 'M[F]_(n, r)) (M : 'M[F]_(n, d)) : V^T *m V = 1%:M ->
  sqnorm (V^T *m M) <= sqnorm M.
Proof.
move=> VV; rewrite -(keeps (V^T *m M) VV) mulmxA -[sqnorm M]sq_trmx -[sqnorm (_ *m M)]sq_trmx.
have pV := columns_projector VV; rewrite trmx_mul (proj1 pV).
exact: shorter.
Qed.

Section Decomposed.
Variables (m n r : nat) (P : 'M[F]_(m, n)) (U : 'M[F]_(m, r)) (s : 'I_r -> F) (V : 'M[F]_(n, r)).
Hypothesis svd : is_svd P U s V.
(* Theorem 7.3 (Best rank k): |P - B|_2 >= s_(k+1), which is s k here. t is any bound of |(P - B) x|
   over |x|; the 2-norm is the least. *)
Theorem best_2norm (k : 'I_r) (B : 'M[F]_(m, n)) t : (\rank B <= k)%N -> 0 <= t ->
  (forall x : 'cV[F]_n, sqnorm ((P - B) *m x) <= t ^+ 2 * sqnorm x) -> s k <= t.
Proof.
have [PE UU VV s0 dec] := svd => rB t0 bound; have kr : (k.+1 <= r)%N := ltn_ord k.
(* a vector y of length k + 1 with B (y_0 v_0 + ... + y_k v_k) = 0 *)
pose S : 'M[F]_(k.+1, r) := pid_mx k.+1.
have [y y0 yB] : exists2 y : 'rV[F]_k.+1, y != 0 & y *m (S *m (V^T *m B^T)) = 0.
  have : kermx (S *m (V^T *m B^T)) != 0.
    rewrite -mxrank_eq0 mxrank_ker -lt0n subn_gt0 ltnS mulmxA.
    by apply: leq_trans (mxrankM_maxr _ _) _; rewrite mxrank_tr.
  by case/rowV0Pn => y /sub_kermxP yB y_neq0; exists y.
pose z : 'cV[F]_r := (y *m S)^T; pose x := V *m z.
have Bx : B *m x = 0.
  apply: (can_inj trmxK); rewrite trmx0 trmx_mul /x trmx_mul /z trmxK -yB.
  by rewrite !mulmxA.
have zE (j : 'I_r) : ~~ (j <= k)%N -> z j 0 = 0.
  move=> jk; rewrite !mxE big1 // => i _; rewrite mxE.
  have [e|_] := eqVneq (i : nat) j; last by rewrite mulr0.
  by move: jk; rewrite -e -ltnS ltn_ord.
have z0 : 0 < sqnorm z.
  rewrite lt_neqAle sq_ge0 andbT eq_sym; apply: contra y0 => /eqP/sq_eq0/(congr1 trmx).
  rewrite /z trmxK trmx0 => yS; rewrite -[y]mulmx1.
  have <- : S *m pid_mx k.+1 = 1%:M :> 'M[F]_k.+1 by rewrite mul_pid_mx minnn (minn_idPr kr) pid_mx_1.
  by rewrite mulmxA yS mul0mx.
(* |P x|^2 = sum of s_j^2 z_j^2 over j <= k *)
have Px : sqnorm (P *m x) = \sum_j (s j * z j 0) ^+ 2.
  rewrite PE /x -mulmxA (mulmxA V^T) VV mul1mx -mulmxA keeps //.
  by apply: eq_bigr => j _; rewrite big_ord1 mul_diag_mx !mxE.
have := bound x; rewrite mulmxBl Bx subr0 Px /x keeps // => up.
rewrite -ler_sqr ?nnegrE // -(ler_pmul2r z0); apply: le_trans up.
rewrite /sqnorm mulr_sumr; apply: ler_sum => j _; rewrite big_ord1 exprMn.
have [jk|/zE ->] := boolP (j <= k)%N; last by rewrite expr0n !mulr0.
by rewrite ler_wpmul2r ?sqr_ge0 // ler_sqr ?nnegrE // dec.
Qed.

(* Theorem 7.3: |P - B|_F^2 is at least the sum of s_j^2 over j > k (j >= k, counted from 0). *)
Theorem best_frobenius k (B : 'M[F]_(m, n)) : (\rank B <= k)%N ->
  \sum_(j < r | (k <= j)%N) s j ^+ 2 <= sqnorm (P - B).
Proof.
have [PE UU VV s0 dec] := svd => rB.
(* Q projects on the rows of B, whose basis is X *)
have [X [Xf BX]] : exists X : 'M[F]_(\rank B, n), row_free X /\ (B <= X)%MS.
  by exists (row_base B); rewrite row_base_free eq_row_base.
pose Y := X *m X^T.
have Yu : Y \in unitmx.
  rewrite -row_free_unit -kermx_eq0; apply/rowV0P => y /sub_kermxP yY.
  have : sqnorm (y *m X) = 0 by rewrite sqnorm_tr trmx_mul mulmxA -(mulmxA y) yY mul0mx mxtrace0.
  move/sq_eq0 => yX; apply/eqP; move: Xf; rewrite -kermx_eq0 => /eqP kX.
  by rewrite -submx0 -kX; apply/sub_kermxP.
pose Q := X^T *m invmx Y *m X.
have YT : Y^T = Y by rewrite trmx_mul trmxK.
have pQ : projector Q.
  split; first by rewrite /Q !trmx_mul trmxK trmx_inv YT mulmxA.
  by rewrite /Q !mulmxA -(mulmxA _ X X^T) -/Y -(mulmxA _ (invmx Y) Y) mulVmx // mulmx1.
have BQ : B *m (1%:M - Q) = 0.
  have [C BC] : exists C, B = C *m X by apply/submxP.
  by rewrite BC mulmxBr mulmx1 /Q !mulmxA -(mulmxA C X) -/Y -(mulmxA C Y) mulmxV // mulmx1 subrr.
have trQ : \tr Q = (\rank B)%:R by rewrite mxtrace_mulC mulmxA -/Y mulmxV // mxtrace1.
clearbody Q.
(* w j, the share of v_j that Q keeps: between 0 and 1, in sum at most k *)
pose W := V^T *m Q *m V; pose w j := W j j.
have quad A j : projector A -> 0 <= (V^T *m A *m V) j j.
  case=> AT AA; have -> : V^T *m A *m V = (A *m V)^T *m (A *m V).
    by rewrite trmx_mul AT -!mulmxA [A *m (A *m V)]mulmxA AA.
  by rewrite mxE sumr_ge0 // => l _; rewrite mxE -expr2 sqr_ge0.
have w0 j : 0 <= w j by exact: quad.
have diagB (A1 A2 : 'M[F]_r) j : (A1 - A2) j j = A1 j j - A2 j j by rewrite !mxE.
have w1 j : w j <= 1.
  have := quad _ j (projector_compl pQ).
  by rewrite mulmxBr mulmx1 mulmxBl VV diagB [1%:M j j]mxE eqxx subr_ge0.
have wk : \sum_j w j <= k%:R.
  apply: le_trans (_ : (\rank B)%:R <= _); last by rewrite ler_nat.
  have -> : \sum_j w j = sqnorm (V^T *m Q).
    rewrite sqnorm_tr trmx_mul trmxK (proj1 pQ) !mulmxA -[V^T *m Q *m Q]mulmxA (proj2 pQ).
    by apply: eq_bigr.
  by apply: le_trans (bessel Q VV) _; rewrite sqnorm_tr (proj1 pQ) (proj2 pQ) trQ.
(* |P - B|^2 >= |P (1 - Q)|^2 = sum of s_j^2 (1 - w_j) *)
apply: (@le_trans _ _ (\sum_j s j ^+ 2 * (1 - w j))); last first.
  apply: le_trans (shorter (P - B) (projector_compl pQ)); rewrite mulmxBl BQ subr0.
  rewrite PE -!mulmxA keeps //; set A := 1%:M - Q.
  rewrite le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigr => j _.
  under eq_bigr do rewrite mul_diag_mx mxE mxE exprMn.
  rewrite -mulr_sumr; congr (_ * _); transitivity ((V^T *m A *m V) j j).
    by rewrite mulmxBr mulmx1 mulmxBl VV diagB [1%:M j j]mxE eqxx.
  have [AT AA] := projector_compl pQ; rewrite -/A in AT AA.
  have -> : V^T *m A *m V = (V^T *m A) *m (V^T *m A)^T.
    by rewrite trmx_mul trmxK AT mulmxA -[V^T *m A *m A]mulmxA AA.
  by rewrite mxE; apply: eq_bigr => c _; rewrite [(V^T *m A)^T _ _]mxE expr2.
(* weights w_j between 0 and 1 that sum to k do best on the k largest *)
have [rk|kr] := leqP r k.
  rewrite [X in X <= _]big_pred0 => [|j].
    by apply: sumr_ge0 => j _; rewrite mulr_ge0 ?sqr_ge0 // subr_ge0.
  by rewrite leqNgt (leq_trans (ltn_ord j)).
pose a := s (Ordinal kr) ^+ 2; pose b (j : 'I_r) : F := (j < k)%:R.
have sum_b : \sum_j b j = k%:R.
  rewrite /b -natr_sum; congr _%:R; rewrite -[RHS]card_ord -sum1_card.
  by rewrite (big_ord_widen r (fun=> 1%N) (ltnW kr)) [RHS]big_mkcond; apply: eq_bigr => j _; case: ltnP.
rewrite -subr_ge0 [X in _ - X]big_mkcond -sumrB.
apply: le_trans (_ : \sum_j a * (b j - w j) <= _).
  by rewrite -mulr_sumr sumrB sum_b mulr_ge0 ?sqr_ge0 // subr_ge0.
apply: ler_sum => j _; have [jk|kj] := ltnP j k; rewrite /b /a.
  rewrite jk mulr1n subr0 ler_wpmul2r ?subr_ge0 //.
  by rewrite ler_sqr ?nnegrE // dec // ltnW.
rewrite ltnNge kj mulr0n sub0r mulrBr mulr1 addrAC subrr add0r !mulrN ler_opp2.
by rewrite ler_wpmul2r // ler_sqr ?nnegrE // dec.
Qed.

(* Theorem 7.3, last sentence: the first k terms have rank at most k ... *)
Theorem truncated_rank (k : 'I_r) : (\rank (truncated k U s V) <= k)%N.
Proof.
rewrite /truncated; apply: leq_trans (mxrankM_maxl _ _) _; apply: leq_trans (mxrankM_maxr _ _) _.
by apply: leq_trans (mxrankM_maxl _ _) _; rewrite rank_pid_mx // ltnW.
Qed.
Lemma rest (k : nat) : P - truncated k U s V =
  U *m diag_mx (\row_j if (k <= j)%N then s j else 0) *m V^T.
Proof.
have [-> _ _ _ _] := svd; rewrite /truncated -mulmxBl -mulmxBr; congr (_ *m _ *m _).
rewrite -{1}[diag_mx _]mul1mx -mulmxBl; apply/matrixP => i j; rewrite mul_mx_diag !mxE.
have [e|ij] := eqVneq i j; last first.
  by rewrite (_ : (i == j :> nat) = false) ?mulr0n ?subrr ?mul0r //; apply: negbTE.
by rewrite e !eqxx /= !mulr1n; case: ltnP => _; rewrite ?subrr ?mul0r ?subr0 ?mul1r.
Qed.
(* ... and attain both bounds. *)
Theorem truncated_frobenius k : sqnorm (P - truncated k U s V) = \sum_(j < r | (k <= j)%N) s j ^+ 2.
Proof.
have [_ UU VV _ _] := svd; rewrite rest -mulmxA keeps // -sq_trmx trmx_mul trmxK keeps // sq_trmx.
rewrite diag_keeps [RHS]big_mkcond; apply: eq_bigr => j _; by case: ifP; rewrite ?expr0n.
Qed.
Theorem truncated_2norm (k : 'I_r) (x : 'cV[F]_n) :
  sqnorm ((P - truncated k U s V) *m x) <= s k ^+ 2 * sqnorm x.
Proof.
have [_ UU VV s0 dec] := svd; rewrite rest -!mulmxA keeps //.
apply: le_trans (ler_wpmul2l (sqr_ge0 _) (bessel x VV)); rewrite /sqnorm mulr_sumr.
apply: ler_sum => j _; rewrite !big_ord1 mul_diag_mx mxE exprMn mxE.
rewrite ler_wpmul2r ?sqr_ge0 //; case: ifP => kj; last by rewrite expr0n sqr_ge0.
by rewrite ler_sqr ?nnegrE // dec.
Qed.
End Decomposed.
(* Instance: the identity on three tokens; no matrix of rank 2 comes nearer than 1. *)
Lemma identity_svd n : is_svd (1%:M : 'M[F]_n) 1%:M (fun=> 1) 1%:M.
Proof.
split=> [||| _|//]; rewrite ?trmx1 ?mulmx1 ?mul1mx ?ler01 //.
by apply/matrixP => i j; rewrite !mxE.
Qed.
Example three_tokens (B : 'M[F]_3) : (\rank B <= 2)%N -> 1 <= sqnorm (1%:M - B).
Proof.
move=> rB; apply: le_trans (best_frobenius (identity_svd 3) rB).
by rewrite (bigD1 (Ordinal (isT : (2 < 3)%N))) //= expr1n ler_addl; apply: sumr_ge0 => j _; exact: ler01.
Qed.
End Best.
